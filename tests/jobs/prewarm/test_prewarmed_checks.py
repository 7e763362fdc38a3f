"""Preflight checks run in forks of prewarmed processes."""

from pathlib import Path

from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS, marks
from tests.jobs.prewarm.conftest import Warm, only
from tests.waiting import wait_until
from viewer.host.jobs import preflight
from viewer.host.jobs.preflight import preflight_new_run
from viewer.models import PreflightCheck, Project

KEY = "sk-canary0123456789abcdefghij"


def checked(project: Project, entry_point: str) -> PreflightCheck:
    """Return the check after it has ended."""
    check = preflight_new_run(project, entry_point, "crew", "json")
    wait_until(lambda: PreflightCheck.objects.get(pk=check.pk).has_ended and not preflight._running)
    return PreflightCheck.objects.get(pk=check.pk)


def test_a_check_runs_in_a_fork_and_the_prewarmed_process_keeps_waiting(
    prewarmed: Warm, project: Project, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "checks.py"}
    settings.PREFLIGHT_SECONDS = 1
    file = Path(project.folder) / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\n")
    project.environment_file = str(file)
    project.save()
    waiting = only(prewarmed())
    check = checked(project, "crew:build")
    assert (check.status, check.report["imports"]) == (PreflightCheck.Status.DONE, ["tiny_engine"])
    # Its copy had the key and stored nothing of it.
    assert check.report["components"][0]["name"] == "search [redacted]"
    assert not check.folder.exists()
    # A check that does not return is ended, but its prewarmed process is not.
    (Path(project.folder) / "wait").touch()
    assert (
        str(checked(project, "crew:never_returns").error)
        == "The check was stopped because it took longer than PREFLIGHT_SECONDS (1)."
    )
    (Path(project.folder) / "wait").unlink()
    assert checked(project, "crew:again").report["imports"] == ["tiny_engine"]
    assert waiting.poll() is None
    assert len(marks(project)) == 3
