"""Real runs, recorded once; each test works on its own copy of a store."""

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import made_once
from tests.engine_runs import runs as children
from tests.engine_runs.model import TestModel, model_server
from tests.engine_runs.prewarmed import WarmPython
from tests.engine_runs.runs import ROOT_CERTIFICATE, Ended, succeeded

RECORDINGS = {
    "crew": ("crew", "json"),
    "store.db": ("crew", "sqlite"),
    "flow": ("flow", "json"),
    "desk": ("desk crew", "json"),
    "agent": ("agent", "json"),
    "plain": ("plain", "json"),
}


@pytest.fixture(scope="module", autouse=True)
def root_certificate() -> Iterator[None]:
    """Let runs that inherit this process's environment load one root certificate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(ROOT_CERTIFICATE))
        yield


@pytest.fixture(scope="session")
def recorded(warm_engine: WarmPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with every store of RECORDINGS, written by CrewAI once for all tests."""
    return made_once(tmp_path_factory, "press_stores", partial(record_all, python=warm_engine))


def record_all(folder: Path, python: WarmPython) -> None:
    """Run the press project's crew, flow and agent, two at a time."""
    with model_server() as server, ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(children.record, python, server, folder, kind, provider, f"./{name}")
            for name, (kind, provider) in RECORDINGS.items()
        ]
        for run in runs:
            run.result()


@pytest.fixture
def stores(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of every store, for one test to write to."""
    return Path(shutil.copytree(recorded, tmp_path / "stores"))


@pytest.fixture(scope="session")
def one_server() -> Iterator[TestModel]:
    with model_server() as server:
        yield server


@pytest.fixture
def model(one_server: TestModel) -> TestModel:
    """Return the model without requests."""
    one_server.gate.set()
    one_server.reset()
    return one_server


class Engine:
    """Starts runners for one test."""

    def __init__(self, python: Path | WarmPython, model: TestModel, folder: Path) -> None:
        self.python, self.model, self.folder = python, model, folder
        self.jobs = itertools.count(1)

    def job(self) -> Path:
        return self.folder / f"job-{next(self.jobs)}"

    def run(self, request: dict[str, Any], **variables: str) -> Ended:
        return children.run(self.python, self.model, self.job(), request, **variables)

    def completed(self, request: dict[str, Any], **variables: str) -> Ended:
        """Run a job that has to succeed."""
        return succeeded(self.run(request, **variables))

    def answered(self, request: dict[str, Any], *answers: str, **variables: str) -> Ended:
        """Run a job that has to succeed, with these answers to its questions."""
        folder = self.job()
        with children.started(self.python, self.model, folder, request, **variables) as child:
            return succeeded(children.answered(folder, child, answers))

    def refused(self, request: dict[str, Any], **variables: str) -> str:
        """Return the error of a job that has to fail before it calls a model."""
        end = self.run(request, **variables).end
        assert end["status"] == "failed", end
        assert self.model.requests == []
        return str(end["error"])

    def interrupt(self, request: dict[str, Any], *signals: int) -> Ended:
        """Send the signals while the model is called and does not answer."""
        self.model.gate.clear()
        folder = self.job()
        with children.started(self.python, self.model, folder, request) as child:
            self.model.wait_for(1)
            for number in signals:
                child.send_signal(number)
                self._wait_for_end(child)
            return children.ended(folder, child)

    @staticmethod
    def _wait_for_end(child: children.Child) -> None:
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            return


@pytest.fixture
def engine(warm_engine: WarmPython, model: TestModel, tmp_path: Path) -> Engine:
    """Starts runners as forks of one prewarmed process."""
    return Engine(warm_engine, model, tmp_path)


@pytest.fixture
def cold_engine(engine_python: Path, model: TestModel, tmp_path: Path) -> Engine:
    """Start each runner in a new interpreter, as a worker may."""
    return Engine(engine_python, model, tmp_path)
