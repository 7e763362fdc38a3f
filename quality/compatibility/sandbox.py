"""The sandbox of a row: an interpreter with one version of the engine, an offline model, a folder."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engine_runs import runs as children
from tests.engine_runs.model import TestModel, model_server
from tests.engine_runs.prewarmed import WarmPython, launched
from tests.engine_runs.runs import PRESS, Child, Ended, Saved, marks, saved_in

MAX_SECONDS = 300
MAX_RECORDINGS = 25
# These kinds have files besides their store: knowledge or memory.
KEEP_BESIDE = ("knowing", "remembering", "remembering apart")
# In this kind, the model calls a tool.
USED_TOOL = "used tool"
# If an engine fails to write checkpoints of such a run, a run by Forkline is the starting point.
RETAKEN = {
    "json": "press_parts:with_json",
    "pydantic": "press_parts:with_pydantic",
    "hierarchical": "press_orders:hierarchical",
    "conditional": "press_orders:conditional",
    USED_TOOL: "press_parts:with_class_tool",
}
# The files of the recorded projects.
RECORDED = {".py", ".jsonc", ".yaml", ".toml"}
OURS = "recorded-by-forkline.txt"
INPUTS = {"topic": "AI", "year": 2026, "tags": ["a", "b"]}
# Two rows may need the same recording at the same time.
RECORDING: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


class Failed(Exception):
    """A check of the row failed. The message contains the actual value."""


class NotPossible(Exception):
    """The row is impossible with this version of the library. The message contains the reason."""


@dataclass
class Sandbox:
    """The sandbox of one row. ``recordings`` is the folder with this version's recorded stores."""

    python: Path | WarmPython
    version: str
    folder: Path
    recordings: Path
    model: TestModel
    jobs: int = field(default=0)
    # A note below the table if the row passes.
    note: str = ""

    def recorded(self, kind: str, provider: str = "json") -> Path:
        """Return a copy of a store that this version wrote. Raise NotPossible or Failed."""
        name = f"{kind}.{provider}".replace(" ", "-")
        recording = self.recordings / name
        with RECORDING[recording]:
            if not recording.exists():
                self._record_whole(Path(f"{recording}.half"), kind, provider).rename(recording)
        if (recording / OURS).exists():
            self.note = (recording / OURS).read_text()
        copy = Path(shutil.copytree(recording, self.folder / name)) / "store"
        if not copy.exists() or (copy.is_dir() and not saved_in(copy)):
            raise missing(copy, "checkpoint of such a run")
        return copy

    def _record_whole(self, folder: Path, kind: str, provider: str) -> Path:
        """Record until the engine does not panic, because a panic loses checkpoints. Raise Failed."""
        for _attempt in range(MAX_RECORDINGS):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                self._record(folder, kind, provider)
            except Failed:
                if not has_panicked(folder):
                    raise
            if not has_panicked(folder):
                return folder
        raise Failed(f"recording {kind}: the engine panicked {MAX_RECORDINGS} times")

    def _record(self, folder: Path, kind: str, provider: str) -> None:
        with model_server() as model, self.recorder(folder, kind, provider, model) as child:
            model.calls_tools = int(kind == USED_TOOL)
            child.wait(MAX_SECONDS)
            if child.returncode:
                raise Failed(
                    f"recording {kind} ({child.returncode}): {(folder / 'log.txt').read_text()[-300:]}"
                )
        reason = failed_write((folder / "log.txt").read_text(errors="replace"))
        if reason and kind in RETAKEN and provider == "json":
            self._record_again(folder, kind)
            (folder / OURS).write_text(f"recorded by Forkline's own run, as CrewAI gives up: {reason}")

    def _record_again(self, folder: Path, kind: str) -> None:
        """Record with a run started by Forkline, which writes checkpoints that the engine alone cannot."""
        shutil.rmtree(folder / "store", ignore_errors=True)
        events = {"events": ["task_started", "task_completed", "task_failed"]}
        request = children.new_run_request(folder / "store", "crew", RETAKEN[kind], INPUTS, events)
        with model_server() as model:
            model.calls_tools = int(kind == USED_TOOL)
            succeeded(children.run(self.python, model, folder / "job", request))

    @contextlib.contextmanager
    def recorder(
        self, folder: Path, kind: str, provider: str = "json", model: TestModel | None = None
    ) -> Iterator[Child]:
        """Start the engine's own run of this kind, writing to ``store`` in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        # The engine adds a suffix to a SQLite store. Users write paths relative to this folder.
        location = "./store" if provider == "json" else "./store.db"
        child = launched(
            self.python,
            PRESS / "record.py",
            [kind, provider, location],
            folder,
            self._recording(folder, kind, model or self.model),
            folder / "log.txt",
        )
        try:
            yield child
        finally:
            # After waiting, the process id may belong to another process.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if provider == "sqlite" and (folder / "store.db").exists():
            (folder / "store.db").rename(folder / "store")

    def _recording(self, folder: Path, kind: str, model: TestModel) -> dict[str, str]:
        stored = storage_in(folder) if kind in KEEP_BESIDE else {}
        return {**children.environment(model, folder), **stored}

    def run(self, request: dict[str, Any], **variables: str) -> Ended:
        """Run the runner to its end, as the product does."""
        self.jobs += 1
        job = self.folder / f"job-{self.jobs}"
        return children.run(self.python, self.model, job, request, PRESS_TRACE=str(self.traces), **variables)

    def completed(self, request: dict[str, Any], **variables: str) -> Ended:
        """Run the runner to its end. Raise Failed unless it succeeds."""
        return succeeded(self.run(request, **variables))

    def continued(self, request: dict[str, Any], tasks: str, **variables: str) -> Ended:
        """Run the runner to its end. Raise Failed unless it succeeds and the model is called for these tasks.

        ``tasks`` are the first words of their descriptions, separated by spaces.
        """
        run = self.completed(request, **variables)
        same("tasks called", tasks_called(self.model), tasks.split())
        return run

    def refused(self, request: dict[str, Any], *reasons: str, **variables: str) -> Ended:
        """Run the runner. Raise Failed unless it refuses for one of these reasons, before any model call."""
        run = self.run(request, **variables)
        same("status", run.end["status"], "failed")
        error = run.end["error"]
        holds(f"the reason is reported: {error[:80]}", any(reason in error for reason in reasons))
        same("model calls", len(self.model.requests), 0)
        return run

    def answered(self, request: dict[str, Any], *answers: str, **variables: str) -> Ended:
        """Run the runner, and answer its questions one after the other. Raise Failed unless it succeeds."""
        self.jobs += 1
        job = self.folder / f"job-{self.jobs}"
        with children.started(self.python, self.model, job, request, **variables) as child:
            return succeeded(children.answered(job, child, answers))

    @property
    def traces(self) -> Path:
        return self.folder / "traces.txt"

    def traced(self) -> list[str]:
        """Return the calls that the project's components recorded."""
        return self.traces.read_text().splitlines() if self.traces.exists() else []


def has_panicked(folder: Path) -> bool:
    """Return whether the engine's serializer panicked while recording this folder."""
    log = folder / "log.txt"
    return log.exists() and "PanicException" in log.read_text(errors="replace")


def storage_in(folder: Path) -> dict[str, str]:
    """Return variables that store knowledge and memory in this folder."""
    return {"CREWAI_STORAGE_DIR": str(folder / "storage")}


def recordings_of(version_folder: Path) -> Path:
    """Return the folder of this version's recordings. It depends on the content of the recorded project."""
    digest = hashlib.sha256()
    sources = (path for path in PRESS.parent.rglob("*") if path.suffix in RECORDED)
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return version_folder / "recordings" / digest.hexdigest()[:12]


def missing(location: Path, what: str) -> Exception:
    """Return NotPossible if the engine logged that it failed to write, else Failed."""
    log = (location.parent / "log.txt").read_text(errors="replace")
    reason = failed_write(log)
    if reason:
        return NotPossible(f"the engine itself writes no {what}: {reason}")
    return Failed(f"the engine has written no {what}")


def failed_write(log: str) -> str:
    """Return why the engine could not write a checkpoint, from its log, or an empty string."""
    reason = re.search(r"^\S*Error: (.*)$", log.partition("Auto-checkpoint failed")[2], re.M)
    return reason[1] if reason else ""


def same(what: str, actual: Any, wanted: Any) -> None:
    """Raise Failed if the two differ."""
    if actual != wanted:
        raise Failed(f"{what}: {actual!r} instead of {wanted!r}")


def holds(what: str, truth: object) -> None:
    """Raise Failed unless the condition holds."""
    if not truth:
        raise Failed(f"not so: {what}")


def succeeded(run: Ended) -> Ended:
    """Return the run. Raise Failed unless it succeeded."""
    if run.end["status"] != "succeeded":
        raise Failed(f"ended as {run.end['status']}: {run.end['error'] or run.log[-200:]}")
    return run


def tasks_called(model: TestModel) -> list[str]:
    """Return the first word of each task that the model was called for, without repetitions."""
    words = [_first_word(prompt) for prompt in model.prompts()]
    return [word for position, word in enumerate(words) if word not in words[:position]]


def _first_word(prompt: str) -> str:
    # Old engines keep an agent's earlier tasks in the conversation. The last one is current.
    known = ("Collect", "Check", "Write about", "Title for")
    asked = prompt.rpartition("Current Task: ")[2] or prompt
    found = [(asked.index(text), text) for text in known if text in asked]
    return min(found)[1].split()[0] if found else prompt[:40]


def grown(location: Path, before: dict[str, str], start: Saved, branch: str) -> list[Saved]:
    """Return the new checkpoints: a chain after ``start`` on one branch. The originals must be unchanged."""
    now = marks(location)
    same("originals that changed", [path for path in before if now.get(path) != before[path]], [])
    new = [saved for saved in saved_in(location) if saved.source not in before]
    same("branches written", {saved.branch for saved in new}, {branch})
    children_of: dict[str, list[Saved]] = {}
    for saved in new:
        children_of.setdefault(saved.parent, []).append(saved)
    chain, at = [], start.id
    while at in children_of:
        following = children_of.pop(at)
        same(f"checkpoints below {at}", len(following), 1)
        chain.append(following[0])
        at = following[0].id
    same("new checkpoints outside the chain", len(new) - len(chain), 0)
    return chain
