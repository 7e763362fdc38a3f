"""Prewarmed processes as a worker starts them, shared by the tests of one process."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until
from viewer.host.jobs import prewarm
from viewer.host.jobs.environment import engine_of_project, guard_list
from viewer.models import Project

MAX_SECONDS = 180


class PrewarmedJobs:
    """One process for each interpreter and engine. ``folder`` has their sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sockets: dict[tuple[str, ...], Path] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def serve(self, project: Project, data_folder: Path) -> None:
        """Let the jobs of this project that this data folder has start as forks."""
        engine = engine_of_project(project)
        # A fork needs the variables that the process was started with, such as the file of protected paths.
        kind = (engine, project.interpreter, os.environ.get("SSL_CERT_FILE", ""), str(guard_list(project)))
        if kind not in self._sockets:
            self._sockets[kind] = self._started(project)
        folder = data_folder / "prewarm"
        folder.mkdir(exist_ok=True, mode=0o700)
        address = folder / f"{prewarm.name_of(project, engine)}.socket"
        address.unlink(missing_ok=True)
        address.symlink_to(self._sockets[kind])

    def _started(self, project: Project) -> Path:
        """Start a process, and return its socket once it waits."""
        name = f"shared-{len(self.processes)}"
        log, address = prewarm.folder() / f"{name}.log", self.folder / f"{name}.socket"
        lock = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        process = prewarm.start_process(project, name, lock, log)
        os.close(lock)
        self.processes.append(process)
        # Tests empty the data folder.
        (prewarm.folder() / address.name).rename(address)
        wait_until(lambda: "Waiting." in log.read_text() or process.poll() is not None, MAX_SECONDS)
        assert process.poll() is None, log.read_text()
        return address


@contextmanager
def prewarmed_jobs_in(folder: Path) -> Iterator[PrewarmedJobs]:
    """Return the processes, ended at the end."""
    jobs = PrewarmedJobs(folder)
    try:
        yield jobs
    finally:
        for process in jobs.processes:
            process.kill()
            process.wait()
