"""What a run in a sandbox, and a child that has left it, can reach of the user's."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.jobs.conftest import MakeJob, finished
from tests.jobs.isolation.conftest import ended, isolate, listener, noted, result_of
from viewer.host.jobs.environment import GUARD, MARKER
from viewer.host.jobs.sandbox import open_paths
from viewer.models import Job, Location, Project
from viewer.records.isolation import isolation_of


@pytest.fixture
def others(project: Project, tmp_path: Path) -> Project:
    """Another project, with its keys."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / ".env").write_text("KEY=sk-of-another-project")
    return Project.objects.create(
        folder=str(folder), interpreter=sys.executable, environment_file=str(folder / ".env")
    )


@pytest.fixture
def process() -> Iterator[int]:
    """A process of the same user, with a key in its environment."""
    started = subprocess.Popen(["sleep", "60"], env={"KEY": "sk-of-a-process", "PATH": os.defpath})
    yield started.pid
    started.kill()
    started.wait()


def attacked(
    project: Project, others: Project, process: int, addresses: list[str], sockets: list[str]
) -> None:
    """Write what the run tries to reach."""
    data = Path(settings.DATA_DIR)
    (data / "other-job").mkdir(exist_ok=True)
    (data / "other-job" / "log.txt").write_text("of another job")
    (data / "secret").write_text("of Forkline")
    files = [str(data / "secret"), str(data / "other-job" / "log.txt"), others.environment_file]
    given = {
        "read": [*files, str(data / "other-job"), others.folder],
        "write": [str(data / "other-job"), others.folder, str(Path.home()), "/usr/lib", "/etc"],
        "replace": files,
        "processes": [process, os.getpid()],
        "addresses": addresses,
        "sockets": sockets,
    }
    (Path(project.folder) / "attack.json").write_text(json.dumps(given))


def reached(job: Job) -> list[str]:
    """What the attacks reached, of several dozen."""
    assert job.status == "succeeded", (job.error, job.log_end)
    count, found = result_of(job)
    assert count > 40
    return list(found)


def test_nothing_of_the_users_is_reached(
    make_job: MakeJob, project: Project, others: Project, process: int, launcher: str, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with listener() as server, listener(socket.AF_UNIX, str(path)):
        address = f"127.0.0.1:{server.getsockname()[1]}"
        attacked(project, others, process, [address], [str(path)])
        job = ended(make_job, project, "attacks.py", launcher=launcher, network="none")
    # In processes of its own, another one may have the number of one outside.
    found = [one for one in reached(job) if launcher != "bubblewrap" or "signal" not in one]
    assert found == []
    assert job.isolation["sandboxed"] and job.isolation["network"] == "none"
    data = Path(settings.DATA_DIR)
    assert Path(others.environment_file).read_text() == "KEY=sk-of-another-project"
    assert (data / "secret").read_text() == "of Forkline"
    assert not [*Path(others.folder).glob("left*"), *data.glob("*/left*")]


@pytest.mark.parametrize(
    ("store_kind", "name", "source"),
    [
        ("json", "checkpoints", "checkpoints/run/one#two.json"),
        ("sqlite", "store.db", "store.db#2026_ab"),
        ("sqlite", "threads.db", "threads.db#a%23b/1ef"),
    ],
)
def test_a_hash_in_the_path_of_a_location_opens_no_folder_above_it(
    project: Project, tmp_path: Path, store_kind: str, name: str, source: str
) -> None:
    folder = tmp_path / "c#" / "stores"
    (folder / "checkpoints" / "run").mkdir(parents=True)
    request: Any = {
        "location": {"path": str(folder / name), "store_kind": store_kind},
        "checkpoint": {"id": "", "source": str(folder / source)},
    }
    isolate(project, launcher="bubblewrap")
    paths = open_paths(
        isolation_of(project.isolation), noted(project), request, {GUARD: ""}, tmp_path / "job", __file__
    )
    stores = [path for path in paths.write if path not in (project.folder, str(tmp_path / "job"))]
    assert stores and all(path.startswith(str(folder)) for path in stores)


def test_with_network_the_files_stay_closed(
    make_job: MakeJob, project: Project, others: Project, process: int, launcher: str, tmp_path: Path
) -> None:
    path = tmp_path / "project" / "socket"
    with listener() as server, listener(socket.AF_UNIX, str(path)):
        address = f"127.0.0.1:{server.getsockname()[1]}"
        attacked(project, others, process, [address], [str(path)])
        job = ended(make_job, project, "attacks.py", launcher=launcher)
    found = {one.removeprefix("child: ") for one in reached(job)}
    if launcher == "bubblewrap":
        found = {one for one in found if "signal" not in one}
    assert found == {f"connect to {address}"}


def test_a_plain_process_reaches_all(
    make_job: MakeJob, project: Project, others: Project, process: int
) -> None:
    attacked(project, others, process, [], [])
    assert len(reached(ended(make_job, project, "attacks.py"))) > 20


def test_an_environment_behind_a_link_is_found(
    make_job: MakeJob, project: Project, launcher: str, tmp_path: Path
) -> None:
    """Also if the link is in ``/tmp``, which is another folder in the sandbox."""
    (tmp_path / "current").symlink_to(Path(sys.prefix))
    project.interpreter = str(tmp_path / "current/bin/python")
    project.save()
    job = ended(make_job, project, "succeeds.py", launcher=launcher)
    assert job.status == "succeeded", (job.error, job.log_end)


def test_a_run_works_as_without_one(
    make_job: MakeJob, project: Project, location: Location, launcher: str
) -> None:
    job = ended(make_job, project, "succeeds.py", launcher=launcher)
    assert job.status == "succeeded", (job.error, job.log_end)
    assert job.log_end.strip() == "working" and job.tokens == 20
    assert job.isolation["launcher"] == launcher
    assert not (job.folder / "temporary").exists()


def test_an_environment_file_that_became_a_link_is_not_read(
    make_job: MakeJob, project: Project, others: Project, launcher: str
) -> None:
    own = Path(project.folder) / ".env"
    own.symlink_to(others.environment_file)
    project.environment_file = str(own)
    project.save()
    job = ended(make_job, project, "shows_environment.py", launcher=launcher)
    assert job.status == "failed" and job.error.code == "isolation.environment_file_leads_out"
    assert "sk-of-another-project" not in job.log_end


def test_a_folder_that_landlock_cannot_close_refuses_the_start(
    make_job: MakeJob, project: Project, others: Project
) -> None:
    inner = Path(project.folder) / "inner"
    inner.mkdir()
    (inner / ".env").write_text("KEY=sk-of-an-inner-project")
    others.folder, others.environment_file = str(inner), str(inner / ".env")
    others.save()
    job = ended(make_job, project, "succeeds.py", launcher="landlock")
    assert job.status == "failed" and job.error.code == "isolation.cannot_close"
    (Path(project.folder) / "attack.json").write_text(
        json.dumps(
            {
                "read": [str(inner / ".env")],
                "write": [],
                "replace": [str(inner / ".env")],
                "processes": [],
                "addresses": [],
                "sockets": [],
            }
        )
    )
    job = ended(make_job, project, "attacks.py", launcher="bubblewrap")
    assert result_of(job)[1] == []
    assert (inner / ".env").read_text() == "KEY=sk-of-an-inner-project"


def test_what_this_machine_lacks_refuses_the_start(make_job: MakeJob, project: Project) -> None:
    job = ended(make_job, project, "succeeds.py", launcher="systemd", memory_mb=512)
    assert job.status == "failed" and job.error.code == "isolation.unavailable"
    assert job.process_id is None and MARKER


def test_an_isolation_that_nobody_knows_refuses_the_start(make_job: MakeJob, project: Project) -> None:
    job = ended(make_job, project, "succeeds.py", launcher="jail")
    assert job.status == "failed" and job.error.code == "isolation.malformed"


def test_kept_keys_cannot_be_read_from_the_file(make_job: MakeJob, project: Project) -> None:
    own = Path(project.folder) / ".env"
    own.write_text("OPENAI_API_KEY=sk-of-this-project")
    project.environment_file = str(own)
    project.kept_keys = {"OPENAI_API_KEY": "https://api.openai.com/v1"}
    project.save()
    nothing: dict[str, list[str]] = {
        name: [] for name in ("read", "write", "replace", "processes", "addresses", "sockets")
    }
    (Path(project.folder) / "attack.json").write_text(json.dumps(nothing | {"replace": [str(own)]}))
    job = ended(make_job, project, "attacks.py", launcher="bubblewrap")
    assert result_of(job)[1] == []
    assert own.read_text() == "OPENAI_API_KEY=sk-of-this-project"
    job = ended(make_job, project, "attacks.py", launcher="landlock")
    assert job.status == "failed" and job.error.code == "isolation.cannot_close"


@pytest.mark.parametrize("by", ["pth", "pyvenv", "link", "location"])
def test_what_a_run_changes_opens_nothing_to_the_next_one(
    make_job: MakeJob, project: Project, location: Location, tmp_path: Path, launcher: str, by: str
) -> None:
    environment, packages = _environment_in(project)
    inner = Path(project.folder) / "checkpoints"
    inner.mkdir()
    Location.objects.filter(pk=location.pk).update(path=str(inner))
    location.refresh_from_db()
    first = ended(make_job, project, "succeeds.py", launcher=launcher)
    assert first.status == "succeeded", (first.error, first.log_end)
    Job.objects.update(branch="ended")
    private = tmp_path / "private"
    (private / "bin").mkdir(parents=True)
    if by == "pth":
        (packages / "x.pth").write_text(f"{private}\n")
    elif by == "pyvenv":
        (environment / "pyvenv.cfg").write_text(f"home = {private}/bin\n")
    elif by == "link":
        python = environment / "bin" / "python"
        (private / "bin" / "python").symlink_to(python.resolve())
        python.unlink()
        python.symlink_to(private / "bin" / "python")
    else:
        inner.rmdir()
        inner.symlink_to(private)
    job = finished(make_job("succeeds.py"))
    assert job.status == "failed", by
    assert by == "location" or job.error.code == "isolation.leads_elsewhere"


def test_the_first_run_after_the_isolation_was_saved_is_not_believed(
    make_job: MakeJob, project: Project, tmp_path: Path, launcher: str
) -> None:
    _environment, packages = _environment_in(project)
    isolate(project, launcher=launcher)
    # A run that was started before, and goes on.
    (tmp_path / "private").mkdir()
    (packages / "x.pth").write_text(f"{tmp_path / 'private'}\n")
    job = finished(make_job("succeeds.py"))
    assert job.status == "failed" and job.error.code == "isolation.leads_elsewhere"
    isolate(project, launcher=launcher)
    Job.objects.update(branch="ended")
    assert finished(make_job("succeeds.py")).status == "succeeded"


def _environment_in(project: Project) -> tuple[Path, Path]:
    """An environment in the project's folder, which its runs may write, with its folder of packages."""
    environment = Path(project.folder) / ".venv"
    packages = environment / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (environment / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    project.interpreter = str(environment / "bin" / "python")
    project.save()
    return environment, packages


def test_a_run_opens_nothing_to_the_next_by_renaming_folders(make_job: MakeJob, project: Project) -> None:
    own = Path(project.folder) / "settings" / "keys" / ".env"
    own.parent.mkdir(parents=True)
    own.write_text("OPENAI_API_KEY=sk-of-this-project")
    project.environment_file = str(own)
    project.kept_keys = {"OPENAI_API_KEY": "https://api.openai.com/v1"}
    project.save()
    nothing: dict[str, list[str]] = {
        name: [] for name in ("read", "write", "replace", "processes", "addresses", "sockets")
    }
    folders = [str(own.parent), str(own.parent.parent)]
    (Path(project.folder) / "attack.json").write_text(json.dumps(nothing | {"replace": folders}))
    job = ended(make_job, project, "attacks.py", launcher="bubblewrap")
    assert not [one for one in result_of(job)[1] if "rename" in one]
    assert own.read_text() == "OPENAI_API_KEY=sk-of-this-project"
