"""Preflight checks run once, a few at a time, and again when something they depend on changes."""

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS, marks
from tests.waiting import wait_until
from viewer.host.jobs import preflight
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.preflight import fingerprint_of, preflight_checkpoint, preflight_new_run, run_check
from viewer.host.jobs.spool import REQUEST
from viewer.host.jobs.starting import start_runner
from viewer.models import Checkpoint, PreflightCheck, Project

KEY = "sk-canary0123456789abcdefghij"


@pytest.fixture(autouse=True)
def tiny_runner(project: Project, settings: Settings) -> None:
    """A tiny runner makes the checks, with a key in the project's environment."""
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "checks.py"}
    file = Path(project.folder) / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\n")
    project.environment_file = str(file)
    project.save()


def ended(check: PreflightCheck) -> PreflightCheck:
    """Return the check after it has ended."""
    wait_until(lambda: PreflightCheck.objects.get(pk=check.pk).has_ended)
    wait_until(lambda: not preflight._running)
    return PreflightCheck.objects.get(pk=check.pk)


def test_a_check_is_redacted_and_reused(checkpoint: Checkpoint, project: Project) -> None:
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert check.status == PreflightCheck.Status.DONE
    assert check.report["components"][0]["name"] == "search [redacted]"
    assert KEY not in str(check.report)
    # It received none of the project's keys.
    assert check.report["given"] == "sk-placeholder-of-a-preflight-check"
    assert preflight_checkpoint(checkpoint, project, "crew:build").pk == check.pk
    assert len(marks(project)) == 1
    # Only the row is left.
    assert not check.folder.exists()


def test_a_new_run_is_checked_without_a_checkpoint(checkpoint: Checkpoint, project: Project) -> None:
    check = ended(preflight_new_run(project, "crew:build", "crew", "sqlite"))
    assert (check.status, check.checkpoint) == (PreflightCheck.Status.DONE, None)
    assert preflight_new_run(project, "crew:build", "crew", "sqlite").pk == check.pk
    others = [
        preflight_new_run(project, "crew:build", *what) for what in (("crew", "json"), ("flow", "json"))
    ]
    others.append(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert {ended(other).status for other in others} == {PreflightCheck.Status.DONE}
    assert len(marks(project)) == 4
    # A change invalidates only the affected check.
    (Path(project.folder) / "crew.py").write_text("one = 1\n")
    ended(preflight_new_run(project, "crew:build", "crew", "sqlite"))
    assert set(PreflightCheck.objects.values_list("pk", flat=True)) >= {other.pk for other in others}
    assert not PreflightCheck.objects.filter(pk=check.pk).exists()


def test_another_entry_point_or_a_changed_source_needs_a_new_check(
    checkpoint: Checkpoint, project: Project
) -> None:
    first = fingerprint_of(checkpoint, project, "crew:build")
    assert fingerprint_of(checkpoint, project, "crew:build") == first
    assert fingerprint_of(checkpoint, project, "crew:other") != first
    source = Path(project.folder) / "crew.py"
    source.write_text("one = 1\n")
    second = fingerprint_of(checkpoint, project, "crew:build")
    assert second != first
    os.utime(source, ns=(1, 1))
    assert fingerprint_of(checkpoint, project, "crew:build") not in (first, second)
    # Files that a run writes next to the code are not imported.
    third = fingerprint_of(checkpoint, project, "crew:build")
    (Path(project.folder) / "article.md").write_text("words")
    (Path(project.folder) / "__pycache__").mkdir()
    (Path(project.folder) / "__pycache__" / "crew.py").write_text("")
    assert fingerprint_of(checkpoint, project, "crew:build") == third


def test_checks_of_one_project_run_one_at_a_time(checkpoint: Checkpoint, project: Project) -> None:
    wait = Path(project.folder) / "wait"
    wait.touch()
    one, other = (
        preflight_checkpoint(checkpoint, project, "crew:one"),
        preflight_checkpoint(checkpoint, project, "crew:other"),
    )
    # A request during the check returns the same one.
    assert preflight_checkpoint(checkpoint, project, "crew:one").pk == one.pk
    wait_until(lambda: len(marks(project)) == 1)
    statuses = sorted(PreflightCheck.objects.values_list("status", flat=True))
    assert statuses == [PreflightCheck.Status.CHECKING, PreflightCheck.Status.WAITING]
    wait.unlink()
    assert {ended(one).status, ended(other).status} == {PreflightCheck.Status.DONE}
    assert len(marks(project)) == 2


def test_no_more_checks_run_than_there_are_slots(
    checkpoint: Checkpoint, project: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.MAX_PREFLIGHTS = 1
    folder = tmp_path / "second"
    folder.mkdir()
    second = Project.objects.create(
        folder=str(folder), interpreter=project.interpreter, confirmed_at=project.confirmed_at
    )
    waits = [Path(one.folder) / "wait" for one in (project, second)]
    for wait in waits:
        wait.touch()
    made = [preflight_checkpoint(checkpoint, one, "crew:build") for one in (project, second)]
    wait_until(lambda: len(marks(project)) + len(marks(second)) == 1)
    assert PreflightCheck.objects.filter(status=PreflightCheck.Status.CHECKING).count() == 1
    for wait in waits:
        wait.unlink()
    assert [ended(check).status for check in made] == [PreflightCheck.Status.DONE, PreflightCheck.Status.DONE]


def test_a_check_that_takes_too_long_is_ended_with_the_reason(
    checkpoint: Checkpoint, project: Project, settings: Settings
) -> None:
    settings.PREFLIGHT_SECONDS = 1
    (Path(project.folder) / "wait").touch()
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert (check.status, str(check.error)) == (
        PreflightCheck.Status.FAILED,
        "The check was stopped because it took longer than PREFLIGHT_SECONDS (1).",
    )
    # It is not retried automatically, only when a person asks for it.
    (Path(project.folder) / "wait").unlink()
    assert preflight_checkpoint(checkpoint, project, "crew:build").status == PreflightCheck.Status.FAILED
    assert (
        ended(preflight_checkpoint(checkpoint, project, "crew:build", again=True)).status
        == PreflightCheck.Status.DONE
    )


def test_a_check_that_prints_endlessly_is_ended_and_leaves_no_files(
    checkpoint: Checkpoint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "MAX_BYTES", 1_000_000)
    (Path(project.folder) / "print").touch()
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert (check.status, str(check.error)) == (
        PreflightCheck.Status.FAILED,
        "The check was stopped because it wrote too much output.",
    )
    assert not check.folder.exists()


def test_stale_checks_are_deleted_and_running_ones_are_not(checkpoint: Checkpoint, project: Project) -> None:
    ages = {"old": 2, "waited for": 2, "new": 0}
    made = {
        name: PreflightCheck.objects.create(
            checkpoint=checkpoint,
            project=project,
            fingerprint=name,
            status=PreflightCheck.Status.CHECKING,
            created_at=timezone.now() - timedelta(hours=hours),
        )
        for name, hours in ages.items()
    }
    for check in made.values():
        check.folder.mkdir(parents=True)
        (check.folder / REQUEST).write_text(KEY)
    of_no_row = made["old"].folder.with_name("0" * 8 + "-0000-4000-8000-" + "0" * 12)
    of_no_row.mkdir()
    of_somebody = of_no_row.with_name("2026-autumn-and-winter-checks")
    of_somebody.mkdir()
    with storage_of(made["waited for"]).following():
        preflight.delete_stale_checks()
    assert set(PreflightCheck.objects.values_list("fingerprint", flat=True)) == {"waited for", "new"}
    assert [name for name, check in made.items() if check.folder.exists()] == ["waited for", "new"]
    assert not of_no_row.exists()
    assert of_somebody.exists()


def test_a_check_whose_runner_fails_has_the_reason(
    checkpoint: Checkpoint, project: Project, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "exits.py"}
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert check.status == PreflightCheck.Status.FAILED
    assert "exited with status 3" in str(check.error)


def test_an_unconfirmed_project_is_not_checked(checkpoint: Checkpoint, project: Project) -> None:
    Project.objects.update(confirmed_at=None)
    project.refresh_from_db()
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert check.status == PreflightCheck.Status.FAILED and "Nobody has allowed" in str(check.error)
    assert marks(project) == []


def test_two_threads_that_run_the_same_check_start_one_runner(
    checkpoint: Checkpoint, project: Project
) -> None:
    check = PreflightCheck.objects.create(
        checkpoint=checkpoint, project=project, fingerprint=fingerprint_of(checkpoint, project, "")
    )
    others = [
        threading.Thread(target=run_check, args=(PreflightCheck.objects.get(pk=check.pk),)) for _ in range(2)
    ]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
    assert ended(check).status == PreflightCheck.Status.DONE
    assert len(marks(project)) == 1


def test_an_outdated_check_is_deleted(checkpoint: Checkpoint, project: Project) -> None:
    ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    (Path(project.folder) / "crew.py").write_text("one = 1\n")
    new = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert list(PreflightCheck.objects.all()) == [new]
    assert len(marks(project)) == 2


def test_an_abandoned_check_is_run_again(
    checkpoint: Checkpoint, project: Project, settings: Settings
) -> None:
    left = PreflightCheck.objects.create(
        checkpoint=checkpoint,
        project=project,
        entry_point="crew:build",
        fingerprint=fingerprint_of(checkpoint, project, "crew:build"),
        status=PreflightCheck.Status.CHECKING,
    )
    left.folder.mkdir(parents=True)
    (left.folder / REQUEST).write_text('{"kind": "preflight"}')
    (Path(project.folder) / "wait").touch()
    child, _in_force = start_runner(storage_of(left), project)
    wait_until(lambda: len(marks(project)) == 1)
    preflight_checkpoint(checkpoint, project, "crew:build")
    # The abandoned one is ended, and another started.
    wait_until(lambda: child.poll() is not None and len(marks(project)) == 2)
    (Path(project.folder) / "wait").unlink()
    assert ended(left).status == PreflightCheck.Status.DONE


def test_a_check_that_cannot_start_leaves_no_files(
    checkpoint: Checkpoint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(storage: JobStorage, *_: object, **_options: object) -> None:
        # The copy of a checkpoint may be there by now.
        assert (storage.path / REQUEST).exists()
        raise OSError("no more processes")

    monkeypatch.setattr(preflight, "start_runner", no_process)
    check = ended(preflight_checkpoint(checkpoint, project, "crew:build"))
    assert check.status == PreflightCheck.Status.FAILED and "no more processes" in str(check.error)
    assert not check.folder.exists()


def test_a_check_that_begins_while_others_are_cleaned_up_keeps_its_files(
    checkpoint: Checkpoint, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(_kind: str) -> Iterator[JobStorage]:
        check = PreflightCheck.objects.create(
            checkpoint=checkpoint, project=project, entry_point="crew:build", fingerprint="new"
        )
        storage_of(check).create()
        yield storage_of(check)

    monkeypatch.setattr(preflight, "storages", listed)
    preflight.delete_stale_checks()
    assert PreflightCheck.objects.get().folder.exists()
