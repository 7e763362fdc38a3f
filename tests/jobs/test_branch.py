"""Valid names of new branches."""

import pytest

from viewer.lineage.branch_names import BranchRefused, checked_branch, proposed_branch


@pytest.mark.parametrize(
    "name", ["exp-a", "fork/20260101T000000_ab12cd34_1f2e3d", "a/b/c", "über", "mit Leerzeichen"]
)
def test_an_ordinary_name_is_accepted_unchanged(name: str) -> None:
    assert checked_branch(name, {"main"}) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        ".",
        "a/.",
        "a\\b",
        "a\nb",
        "a\x00b",
        "a" * 201,
        "main",
        "a#b",
        "a_p-b",
        " a",
        "a /b",
        "ü" * 150,
        "\u202egnp",
    ],
)
def test_a_name_with_a_path_or_invisible_characters_is_refused(name: str) -> None:
    with pytest.raises(BranchRefused):
        checked_branch(name, {"main"})


def test_a_proposed_name_is_new_each_time_and_allowed() -> None:
    first, second = proposed_branch("20260101T000000_ab12cd34"), proposed_branch("20260101T000000_ab12cd34")
    assert first != second
    assert checked_branch(first, {second}) == first
