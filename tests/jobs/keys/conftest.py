"""Jobs whose keys stay with Forkline, without rows."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
from pytest_django import Settings

from tests.jobs.keys.upstream import Upstream, upstream
from tests.waiting import wait_until
from viewer.data_folder.locks import FileLock
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.kept_keys import folder, keep_keys
from viewer.models import Project

KEY, OTHER_KEY = "sk-proj-Abc/123+real_key-0123456789", "sk-ant-other_real_key-9876543210"


@dataclass
class KeyJob:
    """A started job: its variables, its lock, and the real upstream."""

    storage: JobStorage
    variables: dict[str, str]
    lock: int

    @property
    def url(self) -> str:
        return self.variables["OPENAI_BASE_URL"]

    @property
    def placeholder(self) -> str:
        return self.variables["OPENAI_API_KEY"]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def send(self, path: str = "/models", method: str = "GET", **values: object) -> httpx2.Response:
        """Send a request as a client would, by default with the placeholder."""
        headers = {"Authorization": f"Bearer {self.placeholder}"}
        with httpx2.Client(trust_env=False, timeout=60) as client:
            return client.request(method, self.url + path, **{"headers": headers, **values})  # type: ignore[arg-type]

    def end(self) -> None:
        """Release the lock, as the end of its last process does."""
        os.close(self.lock)
        self.lock = -1


StartKeyJob = Callable[..., KeyJob]


@pytest.fixture
def server() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


@pytest.fixture(autouse=True)
def ended_proxy() -> Iterator[None]:
    """End the proxy with the test."""
    yield
    kill_proxy()
    shutil.rmtree(folder(), ignore_errors=True)


@pytest.fixture
def elsewhere() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


@pytest.fixture
def start(
    db: None, tmp_path: Path, settings: Settings, server: Upstream, ended_proxy: None
) -> Iterator[StartKeyJob]:
    """Return a function that starts a job of a new project, in a data folder of its own."""
    (tmp_path / "data").mkdir(mode=0o700)
    settings.DATA_DIR = tmp_path / "data"
    jobs: list[KeyJob] = []

    def started(key: str = KEY, address: str = "", **more: str) -> KeyJob:
        file = tmp_path / f"{len(jobs)}.env"
        address = address or f"{server.url}/v1"
        values = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": address, **more}
        file.write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))
        project = Project(
            folder=str(tmp_path), environment_file=str(file), kept_keys={"OPENAI_API_KEY": address}
        )
        storage = JobStorage(settings.DATA_DIR / "jobs" / str(uuid.uuid4()))
        storage.create()
        lock = storage.acquire_runner_lock()
        assert lock is not None
        jobs.append(KeyJob(storage, keep_keys(storage, project, {}), lock))
        return jobs[-1]

    yield started
    for job in jobs:
        if job.lock >= 0:
            job.end()


def proxy_process() -> psutil.Process | None:
    """The process that serves as the proxy of this test's data folder; None if there is none."""
    found = proxy_processes()
    parents = {process.ppid() for process in found}
    return next((process for process in found if process.pid not in parents), None) if parents else None


def proxy_processes() -> list[psutil.Process]:
    """The proxy's processes: the one that starts it again, and the one that serves."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if str(folder()) in command and "viewer.host.jobs.key_proxy" in command:
                found.append(process)
    return found


def kill_proxy() -> None:
    """Kill all of the proxy, and wait until its lock is released. One that starts is not found at once."""

    def is_released() -> bool:
        found = proxy_processes()
        pids = {process.pid for process in found}
        for process in sorted(found, key=lambda one: one.ppid() in pids):
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=60)
        return not found and not FileLock(folder() / "proxy.lock").is_held()

    wait_until(is_released)
