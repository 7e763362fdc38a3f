"""Valid names of new branches."""

import pytest

from viewer.records.lineage.tree import BranchRefused, checked_branch, free_name, name_for


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


@pytest.mark.parametrize(
    ("edits", "name"),
    [
        ([("year", "2030")], "year-2030"),
        ([("draft", "")], "draft-edited"),
        ([("", "approve")], "approve"),
        ([("year", "2030"), ("tone", "dry")], "year-2030-tone-dry"),
        ([("a", "1"), ("b", "2"), ("c", "3")], "a-1-b-2-and-1-more"),
        ([("top_p", "0.5")], "top-p-0.5"),
        ([("Write a summary of the findings for the board", "")], "write-a-summary-of-the-findings-edited"),
        ([("topic", "x" * 500)], "topic-edited"),
        ([("../..", "a/b\\c#d")], "a-b-c-d"),
        ([("主题", "気候")], "主题-気候"),
        ([("topic", "人" * 32), ("tone", "工" * 32)], f"topic-{'人' * 32}-tone-{'工' * 20}"),
        ([(number, "人" * 32) for number in "123"], f"1-{'人' * 32}-2-{'人' * 22}-and-1-more"),
        ([], "fork"),
    ],
)
def test_a_fork_is_named_for_its_edits(edits: list[tuple[str, str]], name: str) -> None:
    assert name_for(edits, set()) == name == checked_branch(name, set())
    assert name_for(edits, {name}) == checked_branch(f"{name}-2", {name})


@pytest.mark.parametrize("name", ["a" * 200, f"aa{'人' * 66}", f"{'人' * 60}/aa{'工' * 66}"])
def test_a_long_name_has_a_free_one_with_a_number(name: str) -> None:
    assert checked_branch(free_name(checked_branch(name, set()), {name}), {name}).endswith("-2")
