"""The run of a job has a placeholder and the proxy's address, wherever one looks, and never the key."""

import errno
import json
import os
import time
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, StartWorker, finished, followed, status
from tests.jobs.isolation.conftest import WALLS, isolate
from tests.jobs.keys.conftest import KEY, StartKeyJob, kill_proxy
from tests.jobs.keys.upstream import Upstream
from tests.waiting import wait_until
from viewer.data_folder.locks import FileLock
from viewer.host.jobs import kept_keys
from viewer.host.jobs.environment import runner_environment
from viewer.host.jobs.files import write_private_file
from viewer.host.jobs.kept_keys import NO_KEY, folder, keepable_keys, restart_proxy
from viewer.models import Job, Project
from viewer.redaction.known_secrets import KnownSecrets


@pytest.fixture
def kept(project: Project, server: Upstream, tmp_path: Path, settings: Settings) -> Project:
    """Return a project whose key stays with Forkline."""
    file = tmp_path / "project.env"
    address = f"{server.url}/v1"
    lines = [f"OPENAI_API_KEY={KEY}", f"OPENAI_BASE_URL={address}", "OTHER=${OPENAI_API_KEY}", "DATABASE=app"]
    lines += [f"WITH_KEY=postgresql://me:{quote(KEY, safe='')}@db.example/app?key={KEY}"]
    lines += [f"HEADER=Basic {b64encode(f'me:{KEY}'.encode()).decode()}"]
    file.write_text("\n".join([*lines, "ANTHROPIC_API_KEY=sk-ant-not_kept_0123456789"]))
    project.environment_file = str(file)
    project.kept_keys = {"OPENAI_API_KEY": address}
    project.save()
    return project


def reported(project: Project) -> dict[str, str]:
    """The environment of the last run."""
    found: dict[str, str] = json.loads((Path(project.folder) / "reported.json").read_text())["environment"]
    return found


def has_key(environment: dict[str, str]) -> bool:
    """Whether variables have the key in any form."""
    return KnownSecrets([KEY]).is_in(json.dumps(environment).encode())


def test_a_run_gets_a_placeholder_and_the_proxys_address(kept: Project, make_job: MakeJob) -> None:
    job = finished(make_job("shows_environment.py"))
    environment = reported(kept)
    assert (job.status, job.kept_keys) == (Job.Status.SUCCEEDED, kept.kept_keys)
    assert not has_key(environment) and environment["DATABASE"] == "app"
    assert environment["WITH_KEY"].startswith("postgresql://me:sk-proj-forkline-")
    assert environment["OPENAI_API_KEY"] == environment["OTHER"] and "forkline" in environment["OTHER"]
    assert environment["OPENAI_BASE_URL"] == environment["OPENAI_API_BASE"]
    assert environment["OPENAI_BASE_URL"].endswith(f"/{job.pk}/openai")
    assert environment["ANTHROPIC_API_KEY"] == "sk-ant-not_kept_0123456789"
    # The job has ended.
    headers = {"X-Api-Key": environment["OPENAI_API_KEY"]}
    assert httpx2.get(f"{environment['OPENAI_BASE_URL']}/models", headers=headers).status_code == 401
    first = environment["OPENAI_API_KEY"]
    finished(make_job("shows_environment.py"))
    assert reported(kept)["OPENAI_API_KEY"] != first


def test_without_the_setting_nothing_starts_and_nothing_changes(kept: Project, make_job: MakeJob) -> None:
    kept.change_kept_keys({})
    job = finished(make_job("shows_environment.py"))
    assert reported(kept)["OPENAI_API_KEY"] == KEY and job.kept_keys == {}
    assert not folder().exists()


def test_a_run_behind_a_network_proxy_reaches_this_machine(
    kept: Project, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "intranet.example")
    finished(make_job("shows_environment.py"))
    assert reported(kept)["NO_PROXY"] == reported(kept)["no_proxy"] == "intranet.example,127.0.0.1"


def test_other_processes_of_the_project_get_no_key(kept: Project) -> None:
    environment = runner_environment("", kept)
    assert (environment["OPENAI_API_KEY"], environment["OTHER"]) == (NO_KEY, NO_KEY)
    assert not has_key(environment) and not has_key(runner_environment("x", kept, is_preflight=True))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("OPENAI_API_BASE=https://elsewhere.example/v1", "keys.bad_address"),
        ("OPENAI_BASE_URL=https://elsewhere.example/v1", "keys.other_address"),
        ("OPENAI_BASE_URL=http://elsewhere.example/v1", "keys.bad_address"),
        ("OPENAI_API_KEY=", "keys.unusable"),
        ("OPENAI_API_KEY='two words here'", "keys.unusable"),
    ],
)
def test_a_key_goes_nowhere_else_when_the_file_changes(
    kept: Project, make_job: MakeJob, change: str, error: str
) -> None:
    with open(kept.environment_file, "a") as file:
        file.write(f"\n{change}\n")
    job = finished(make_job("shows_environment.py"))
    assert job.status == Job.Status.FAILED and job.error and job.error.code == error
    # Recorded before the start, so the proxy of a run whose worker was killed meanwhile is started again.
    assert job.kept_keys == kept.kept_keys
    assert KEY not in str(job.error) and not (Path(kept.folder) / "reported.json").exists()


def test_a_key_goes_nowhere_else_when_the_row_changes(kept: Project, make_job: MakeJob) -> None:
    kept.change_kept_keys({"OPENAI_API_KEY": "https://evil.example/v1"})
    job = finished(make_job("shows_environment.py"))
    assert job.error and job.error.code == "keys.other_address"


def test_keys_that_can_stay(kept: Project) -> None:
    with open(kept.environment_file, "a") as file:
        file.write(
            "\nGATEWAY_KEY=gk-0123456789abc\nGATEWAY_URL=https://gateway.example/a\nLONE_API_KEY=x0123456789\n"
        )
    assert {one.variable: one.address for one in keepable_keys(kept)} == {
        "ANTHROPIC_API_KEY": "https://api.anthropic.com",
        "GATEWAY_KEY": "https://gateway.example/a",
        "OPENAI_API_KEY": kept.kept_keys["OPENAI_API_KEY"],
    }


def test_the_proxy_survives_its_worker_and_is_restarted_by_the_next(
    kept: Project, make_job: MakeJob, start_worker: StartWorker, server: Upstream
) -> None:
    job = make_job()
    worker = start_worker("calls_its_model.py")
    called = Path(kept.folder) / "called"
    wait_until(lambda: called.exists() and called.read_text().count("200") > 1)
    worker.kill()
    worker.wait()
    # The run goes on without its worker.
    count = called.read_text().count("200")
    wait_until(lambda: called.read_text().count("200") > count + 2)
    assert "ConnectionRefusedError" not in called.read_text()
    kill_proxy()
    wait_until(lambda: "refused" in called.read_text())
    start_worker("calls_its_model.py")
    ended = called.read_text().count("200")
    wait_until(lambda: called.read_text().count("200") > ended)
    (Path(kept.folder) / "stop").touch()
    wait_until(lambda: status(job) == Job.Status.SUCCEEDED)
    assert set(server.keys) == {KEY} and Job.objects.get(pk=job.pk).kept_keys == kept.kept_keys


def test_what_a_run_prints_of_its_placeholder_is_redacted(kept: Project, make_job: MakeJob) -> None:
    job = finished(make_job("prints_environment.py"))
    assert "OPENAI_API_KEY" in job.log_end and job.status == Job.Status.SUCCEEDED
    assert "sk-proj-" not in job.log_end + job.result


@pytest.mark.parametrize("launcher", WALLS)
def test_an_isolated_run_reaches_its_model_by_the_proxy(
    kept: Project, make_job: MakeJob, server: Upstream, launcher: str
) -> None:
    isolate(kept, launcher=launcher)
    called, job = Path(kept.folder) / "called", make_job("calls_its_model.py")
    with followed(job):
        wait_until(lambda: called.exists() and called.read_text().count("200") > 1)
        (Path(kept.folder) / "stop").touch()
    assert (job.status, job.isolation["launcher"]) == (Job.Status.SUCCEEDED, launcher)
    assert set(server.keys) == {KEY} and job.kept_keys == kept.kept_keys


def test_a_run_with_allowed_hosts_reaches_the_proxy(
    kept: Project, make_job: MakeJob, server: Upstream
) -> None:
    base = {"launcher": "bubblewrap", "network": "hosts"}
    isolate(kept, **base, allow=["api.openai.com:443"])
    job = finished(make_job("calls_its_model.py"))
    assert job.status == Job.Status.FAILED and job.error.code == "isolation.key_address_not_allowed"
    assert job.error.values["host"] == server.url.removeprefix("http://")
    Job.objects.update(branch="ended")
    isolate(kept, **base, allow=[server.url.removeprefix("http://")])
    called, job = Path(kept.folder) / "called", make_job("calls_its_model.py")
    with followed(job):
        wait_until(lambda: called.exists() and called.read_text().count("200") > 1)
        (Path(kept.folder) / "stop").touch()
    assert (job.status, job.isolation["network"]) == (Job.Status.SUCCEEDED, "hosts")
    assert set(server.keys) == {KEY} and job.kept_keys == kept.kept_keys


def test_a_proxy_that_could_not_start_is_started_by_the_next_job(
    kept: Project, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(path: Path, data: bytes) -> None:
        if path.name == "port":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_private_file(path, data)

    with monkeypatch.context() as full:
        full.setattr(kept_keys, "write_private_file", no_space)
        assert finished(make_job("shows_environment.py")).status == Job.Status.FAILED
    assert not FileLock(folder() / "proxy.lock").is_held()
    assert finished(make_job("shows_environment.py")).status == Job.Status.SUCCEEDED


def test_a_killed_proxy_is_started_again_after_the_clock_was_set_back(start: StartKeyJob) -> None:
    job = start()
    kill_proxy()
    later = time.time() + 3600
    os.utime(folder() / "log", (later, later))
    restart_proxy(job.storage.name)
    assert FileLock(folder() / "proxy.lock").is_held() and job.send().status_code == 200
