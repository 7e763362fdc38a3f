"""Records real runs, and runs the real runner on a job folder, as a worker does."""

import hashlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engine_runs.model import TestModel
from tests.engine_runs.prewarmed import Copy, WarmPython, launched
from viewer.engines.crewai.planning import plan_of
from viewer.engines.plan import Edits, Step, Unit
from viewer.host.jobs.spool import EVENTS, REQUEST, SpoolEvent, answer_name, read_events
from viewer.messages.message import message_from

ROOT = Path(__file__).resolve().parent.parent.parent
RUNNER, JOBS = ROOT / "viewer/runners/runner.py", "forkline_crewai.job"
PRESS = Path(__file__).resolve().parent / "projects/press"
# Projects that are declared in files.
DESK, LINE = PRESS.parent / "desk", PRESS.parent / "line"
Child = subprocess.Popen[bytes] | Copy
# The engine loads all root certificates twice per model client. With one it takes a fiftieth of the time.
ROOT_CERTIFICATE = Path(__file__).resolve().parent / "root_certificate.pem"
KEY = "sk-test-press-000001"


@dataclass(frozen=True)
class Saved:
    """One checkpoint at a location."""

    id: str
    parent: str
    branch: str
    source: str
    body: dict[str, Any] = field(repr=False)

    @property
    def root(self) -> dict[str, Any]:
        """The root entity: the first that is no executor."""
        entities: list[dict[str, Any]] = self.body["entities"]
        return next(entity for entity in entities if not entity.get("executor_type"))

    @property
    def tasks(self) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self.root["tasks"]
        return tasks

    @property
    def done(self) -> int:
        return sum(task["output"] is not None for task in self.tasks)


@dataclass(frozen=True)
class Ended:
    """A runner that has ended, with its events."""

    lines: list[SpoolEvent]
    status: int
    log: str = field(repr=False)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the data of these events, with messages in English."""
        return [in_english(line["data"]) for line in self.lines if line["kind"] == kind]

    @property
    def end(self) -> dict[str, Any]:
        assert [line["kind"] for line in self.lines].count("ended") == 1, self.log[-3000:]
        assert self.lines[-1]["kind"] == "ended"
        data: dict[str, Any] = in_english(self.lines[-1]["data"])
        return data


def succeeded(run: Ended) -> Ended:
    """Return the run, which has to have succeeded."""
    assert run.end["status"] == "succeeded", run.end
    return run


def in_english(data: Any) -> Any:
    """Return the data with the text of each message."""
    if isinstance(data, dict):
        message = message_from(data) if data.keys() == {"code", "values"} else None
        return str(message) if message else {name: in_english(value) for name, value in data.items()}
    return [in_english(item) for item in data] if isinstance(data, list) else data


def environment(model: TestModel, home: Path) -> dict[str, str]:
    """Return the environment that a project's environment file and a worker give a runner."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": model.url,
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_TESTING": "true",
        "OTEL_SDK_DISABLED": "true",
        "SSL_CERT_FILE": str(ROOT_CERTIFICATE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def record(python: Path | WarmPython, model: TestModel, folder: Path, *arguments: str) -> None:
    """Run the press project. It writes checkpoints below ``folder``."""
    log = folder / f"{'-'.join(arguments).replace('/', '-')}.txt"
    child = launched(python, PRESS / "record.py", arguments, folder, environment(model, folder), log)
    assert child.wait(240) == 0, log.read_text()[-2000:]


def saved_in(location: Path) -> list[Saved]:
    """Return the checkpoints of a JSON location, ordered by their progress."""
    found = []
    for path in location.rglob("*.json"):
        identifier, _, parent = path.stem.partition("_p-")
        body = json.loads(path.read_bytes())
        branch = path.parent.relative_to(location).as_posix()
        found.append(Saved(identifier, "" if parent == "none" else parent, branch, str(path), body))
    return sorted(found, key=_progress)


def _progress(saved: Saved) -> tuple[int, int]:
    """Return the progress of a run by its latest event, since the record of an agent lacks earlier ones."""
    events = [node["event"] for node in saved.body["event_record"]["nodes"].values()]
    return max((event.get("emission_sequence") or 0 for event in events), default=0), len(events)


def marks(location: Path) -> dict[str, str]:
    """Return a hash of each file at a location."""
    files = [location] if location.is_file() else [path for path in location.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def plan_for(saved: Saved, entity: str, edits: Edits) -> list[Step]:
    """Return the plan, as the form or the terminal makes it."""
    if entity == "crew":
        units = [
            Unit(
                id=task["id"],
                title=task["description"],
                done=task["output"] is not None,
                template=task.get("checkpoint_original_description") or "",
            )
            for task in saved.tasks
        ]
    elif entity == "flow":
        units = [Unit(name, name, done=True) for name in saved.root["checkpoint_completed_methods"] or []]
    else:
        units = [Unit(saved.root["id"], "ask", done="completed" in saved.body["trigger"])]
    return plan_of(entity, units, edits)


def request_for(
    saved: Saved,
    location: Path,
    kind: str = "fork",
    branch: str = "",
    edits: Edits | None = None,
    steps: Sequence[Step] | None = None,
    entry_point: str = "",
    store_kind: str = "json",
    folder: Path = PRESS,
) -> dict[str, Any]:
    """Return the request that continues a checkpoint, as the form or the terminal makes it."""
    edits, entity = edits or Edits(), str(saved.root["entity_type"])
    steps = plan_for(saved, entity, edits) if steps is None else steps
    return {
        "job": str(uuid.uuid4()),
        "kind": kind,
        "checkpoint": {"id": saved.id, "source": saved.source},
        "location": {"path": str(location), "store_kind": store_kind},
        "entity": entity,
        "name": "press",
        "branch": branch or ("try-it" if kind == "fork" else saved.branch),
        "inputs": dict(edits.inputs),
        "outputs": {
            task: value if isinstance(value, dict) else {"text": value}
            for task, value in edits.outputs.items()
        },
        "state": edits.state,
        "steps": [{"task": step.unit, "action": step.action.value} for step in steps],
        "folder": str(folder),
        "entry_point": entry_point,
        # Everything the checkpoint adds is accepted; test_effects tests consent.
        "accepted_effects": ["*"],
    }


def new_run_request(
    location: Path,
    entity: str,
    entry_point: str,
    inputs: dict[str, Any],
    checkpoints: dict[str, Any] | None = None,
    store_kind: str = "json",
    folder: Path = PRESS,
) -> dict[str, Any]:
    """Return the request of a new run, as the form or the terminal makes it."""
    return {
        "job": str(uuid.uuid4()),
        "kind": "run",
        "checkpoint": {"id": "", "source": ""},
        "location": {"path": str(location), "store_kind": store_kind},
        "entity": entity,
        "name": entry_point,
        "branch": "main",
        "inputs": inputs,
        "outputs": {},
        "state": None,
        "steps": [],
        "folder": str(folder),
        "entry_point": entry_point,
        "options": {"checkpoints": checkpoints or {}},
    }


@contextmanager
def started(
    python: Path | WarmPython, model: TestModel, folder: Path, request: dict[str, Any], **variables: str
) -> Iterator[Child]:
    """Start the runner of a job folder. It is killed if the test leaves it running."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REQUEST).write_text(json.dumps(request))
    surroundings = {**environment(model, folder), **variables}
    child = launched(python, RUNNER, [str(folder), JOBS], folder, surroundings, folder / "log.txt")
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def ended(folder: Path, child: Child, seconds: float = 240) -> Ended:
    """Wait for the runner and read its events."""
    status = child.wait(seconds)
    lines, _ = read_events(folder, 0)
    printed = (folder / "log.txt").read_text(errors="replace")
    assert (folder / EVENTS).exists(), f"it ended with {status} before its first word: {printed[-1000:]}"
    assert (folder / EVENTS).stat().st_mode & 0o077 == 0
    assert not (folder / "scratch").exists()
    return Ended(lines, status, printed)


def asked(folder: Path, child: Child, number: int, seconds: float = 240) -> bool:
    """Wait until the runner has asked this number of questions. Return False if it ends before."""
    until = time.monotonic() + seconds
    while sum(line["kind"] == "question" for line in read_events(folder, 0)[0]) < number:
        if child.poll() is not None:
            return False
        assert time.monotonic() < until, f"question {number} was not asked"
        time.sleep(0.05)
    return True


def answered(folder: Path, child: Child, answers: Sequence[str], seconds: float = 240) -> Ended:
    """Answer the questions of the runner one after another, and wait for its end."""
    for number, text in enumerate(answers, 1):
        if not asked(folder, child, number, seconds):
            break
        half = folder / "half.json"
        half.write_text(json.dumps({"text": text}))
        half.rename(folder / answer_name(number))
    return ended(folder, child, seconds)


def run(
    python: Path | WarmPython, model: TestModel, folder: Path, request: dict[str, Any], **variables: str
) -> Ended:
    """Run a job's runner to its end."""
    with started(python, model, folder, request, **variables) as child:
        return ended(folder, child)
