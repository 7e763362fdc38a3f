"""What ``make matrix-crewai-new`` compares, prints and returns. Installs no version."""

import pytest

from quality.compatibility import __main__ as command
from quality.compatibility import environments
from quality.compatibility.document import recorded
from quality.compatibility.execution import rows_named
from quality.compatibility.releases import Change, changes, newest_of, report


def test_the_document_has_every_row_and_a_newest_version() -> None:
    columns = recorded()
    assert {f"{group}: {name}" for group, name in columns[newest_of(columns)]} == {
        row.title for row in rows_named()
    }
    assert set(environments.VERSIONS) <= set(columns)


def test_versions_are_compared_as_numbers() -> None:
    assert newest_of({"1.9.9": 0, "1.15.2": 0, "1.15.10": 0}) == "1.15.10"


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        ("pass", "fail: no", True),
        ("pass", "not possible: no", True),
        ("not possible", "fail: no", True),
        ("not possible", "pass", False),
        ("fail", "not possible: no", False),
        ("not run", "pass", False),
        ("not run", "not possible: no", False),
        ("not run", "fail: no", True),
    ],
)
def test_a_changed_verdict_is_better_or_worse(before: str, now: str, worse: bool) -> None:
    assert changes({("crew", "resume"): before}, {("crew", "resume"): now}) == [
        Change("crew: resume", before, now)
    ]
    assert Change("crew: resume", before, now).is_worse is worse


def test_a_different_reason_is_not_a_change() -> None:
    now = {("crew", "resume"): "pass: asked 27 times", ("flow", "resume"): "not possible: other"}
    before = {
        ("crew", "resume"): "pass: asked 9 times",
        ("flow", "resume"): "not possible",
        ("agent", "gone"): "pass",
    }

    assert changes(before, now) == []
    assert report([], "2.0", "1.9") == "Nothing changed between CrewAI 1.9 and 2.0."


def test_regressions_are_printed_first() -> None:
    found = [Change("a: b", "fail", "pass"), Change("c: d", "pass", "fail: no")]

    assert report(found, "2.0", "1.9").splitlines() == [
        "Changed between CrewAI 1.9 and 2.0:",
        "WORSE c: d: pass -> fail: no",
        "a: b: fail -> pass",
    ]


def test_a_recorded_version_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "newest", lambda: newest_of(recorded()))
    monkeypatch.setattr(command, "results_of", lambda *_: pytest.fail("a row is played"))

    assert command.main(["--new"]) == 0
    assert "already has it" in capsys.readouterr().out


@pytest.mark.parametrize(("outcome", "status"), [("pass", 0), ("fail: no", 1)])
def test_a_new_version_is_run_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: str, status: int
) -> None:
    played: list[str] = []

    def results_of(rows: list[object], versions: list[str]) -> command.Results:
        played.extend(versions)
        return {
            (group, name, versions[0]): outcome if group == "crew" else verdict
            for (group, name), verdict in recorded()[newest_of(recorded())].items()
        }

    monkeypatch.setattr(environments, "newest", lambda: "99.0")
    monkeypatch.setattr(command, "results_of", results_of)

    assert command.main(["--new"]) == status
    assert played == ["99.0"]
    printed = capsys.readouterr().out
    assert ("WORSE crew: " in printed) is bool(status)
    assert "flow:" not in printed


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--nwe"], 2), (["1.15.30"], 2)])
def test_help_and_unknown_arguments_run_nothing(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int
) -> None:
    monkeypatch.setattr(command, "results_of", lambda *_: pytest.fail("a row is played"))

    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == status


def test_rows_that_do_not_exist_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROWS", "no such row")

    with pytest.raises(SystemExit):
        command.main(["--new"])
    assert "no such row" in capsys.readouterr().err
