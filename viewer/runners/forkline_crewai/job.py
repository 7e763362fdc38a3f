"""Runs, resumes, forks or checks a crew, a flow or an agent, as a job's request specifies.

The engine takes seconds to import, so whatever can be refused without it is refused first: neither this
module nor those that it imports at the top import the engine.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forkline_crewai
from forkline_crewai import checkpoints, effects
from forkline_crewai.patches import DotenvCall, secrets_hidden
from forkline_runner import effects as accepted_effects
from forkline_runner import findings, project
from forkline_runner.calls import recorded_answers
from forkline_runner.findings import PREFLIGHT_KINDS, Report, recorded_imports, report_findings
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request

# The first version whose checkpoints contain their parent and branch.
MIN_ENGINE = "1.14.2"
# The entity of a request that starts from a state that a flow's ``@persist`` stored.
STATE = "flow_state"
MAX_FLUSH_SECONDS = 60
# The kinds of steps that count towards a limit.
STEPS = ("task", "method")


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request with CrewAI. Return the result as text. Raises Refused before anything has run."""
    if request["kind"] in PREFLIGHT_KINDS:
        return _check(request, scratch, reporter)
    _report_start(reporter)
    if request["kind"] == "replay":
        return _replay(request, reporter)
    checkpoints.refuse_other_location(request)
    if request["kind"] == "publish":
        return _publish(request, reporter)
    if request["kind"] == "run":
        return _run_from_the_start(request, reporter)
    if request["entity"] == STATE:
        return _run_from_state(request, scratch, reporter)
    body = checkpoints.read_original(request)
    root = checkpoints.root_of(body, request["entity"])
    if request["entity"] == "crew":
        checkpoints.edit_crew(root, request)
    elif request["entity"] == "flow":
        if not request["entry_point"]:
            raise Refused("crewai.flow_needs_entry_point")
        checkpoints.edit_state(root, request)
    project.enter(request["folder"])
    accepted_effects.refuse_unaccepted(effects.effects_of(root, request, os.environ), request)
    effects.pin_modules(root, request)
    entities, lost = _entities(root, request)
    if lost:
        reporter.warn("crewai.not_restored", lost=", ".join(lost))
    _isolate()
    from forkline_crewai import recorded, runs

    with recorded_answers(request, reporter, recorded.model_methods):
        return runs.run_restored(request, body, root, entities, scratch, reporter)


def _check(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Report the findings of a preflight check in one event. Return an empty result. Nothing runs."""
    _isolate()

    def find(report: Report) -> None:
        report["engine_version"] = _report_start(reporter)
        _add_findings(report, request, scratch)

    return report_findings(reporter, scratch, find)


def _add_findings(report: Report, request: Request, scratch: Path) -> None:
    """Add the effects of the checkpoint, without importing anything.

    If a person has accepted all of them, import the engine and the project's code, restore the checkpoint,
    and add the components of the run. Raises Refused.
    """
    if request["location"]["store_kind"] == "sqlite":
        checkpoints.use_recent_sqlite()
        report["sqlite_version"] = getattr(sys.modules.get("sqlite3"), "sqlite_version", "")
    body: dict[str, Any] = {}
    saved: dict[str, Any] = {}
    if request["entity"] == STATE:
        saved = checkpoints.read_state(request)._asdict()
    elif request["checkpoint"]["source"]:
        body = checkpoints.read_original(request)
        saved = checkpoints.root_of(body, request["entity"])
        report["checkpoint_version"] = str(body.get("crewai_version") or "")
    project.enter(request["folder"])
    found = effects.effects_of(saved, request, os.environ)
    report["effects"] = accepted_effects.plain(found, request)
    if request["kind"] == "effects" or accepted_effects.unaccepted(found, request):
        report["is_complete"] = False
        return
    effects.pin_modules(saved, request)
    with recorded_imports(report):
        from forkline_crewai import flow_states, runs

        if request["entity"] == STATE:
            flow_states.add_components(report, request, checkpoints.StoredState(**saved))
        else:
            runs.add_components(report, request, body, saved, scratch)


def _run_from_the_start(request: Request, reporter: Reporter) -> str:
    if request["location"]["store_kind"] == "sqlite":
        checkpoints.use_recent_sqlite()
    project.enter(request["folder"])
    _isolate()
    from forkline_crewai import runs

    return runs.run_new(request, reporter)


def _run_from_state(request: Request, scratch: Path, reporter: Reporter) -> str:
    state = checkpoints.read_state(request)
    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    project.enter(request["folder"])
    _isolate()
    from forkline_crewai import flow_states, recorded

    with recorded_answers(request, reporter, recorded.model_methods):
        return flow_states.run(request, state, scratch, reporter)


def _publish(request: Request, reporter: Reporter) -> str:
    _isolate()
    from forkline_crewai import flow_states

    draft = Path(request["checkpoint"]["source"].rpartition("#")[0])
    return str(flow_states.publish(request, draft, request["options"]["new_thread"], reporter))


def _replay(request: Request, reporter: Reporter) -> str:
    project.enter(request["folder"])
    _isolate()
    from forkline_crewai import models

    return models.replay_call(request, reporter)


def _report_start(reporter: Reporter) -> str:
    """Report the installed versions. Return the engine's. Raises Refused if it is missing or too old."""
    return project.report_start(
        reporter,
        ["crewai"],
        MIN_ENGINE,
        label="crewai",
        missing="crewai.not_installed",
        too_old="crewai.version_too_old",
    )


def _entities(root: dict[str, Any], request: Request) -> tuple[list[Any], list[str]]:
    """Return the entities to restore from the checkpoint, and the names of what is dropped from them.

    If the project's code makes the entity, none is restored: only the checkpoint's texts and values are used.
    """
    if request["entry_point"] or request["entity"] == "flow":
        return [], []
    clean = effects.clean_crew if request["entity"] == "crew" else effects.clean_agent
    entity, lost = clean(root, effects.may_import, os.environ)
    return [entity], lost


def _isolate() -> None:
    """Prevent the engine from prompting at a terminal and from sending telemetry."""
    for name, value in {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_TESTING": "true",
        "OTEL_SDK_DISABLED": "true",
    }.items():
        os.environ.setdefault(name, value)


def flush() -> None:
    """Wait until no handler of the engine's events is running, at most ``MAX_FLUSH_SECONDS``.

    One of them may be writing the last checkpoint. Does nothing if the engine was not imported.
    """
    bus: Any = getattr(sys.modules.get("crewai.events.event_bus"), "crewai_event_bus", None)
    deadline = time.monotonic() + MAX_FLUSH_SECONDS
    while bus is not None and bus._pending_futures and (left := deadline - time.monotonic()) > 0:
        bus.flush(timeout=max(0.01, left))


# Imports in advance all modules of the engine that a job's process needs. Used by prewarm_runner.py.
#
# The engine reads environment files and a person's sign-in when it is imported. A process that waits for jobs
# must hold neither: both are hidden from it, and the environment files are read when a job starts.


# Imported only by a first task or a restore, depending on the version of the engine.
LATE = (
    *("crewai.hooks.contexts", "crewai.llms.cache", "crewai.skills.tool", "crewai.state.provider.utils"),
    *("crewai.tasks.hallucination_guardrail", "crewai.tasks.llm_guardrail", "crewai.tasks.conditional_task"),
    *("crewai.llms.providers.openai.completion", "crewai.llms.providers.anthropic.completion"),
    *("crewai.llms.providers.gemini.completion", "crewai.experimental.agent_executor"),
    *("crewai.memory.unified_memory", "crewai.tools.memory_tools"),
    *("openai.resources", "openai.resources.chat.completions", "openai.resources.responses"),
    *("httpcore._sync.connection_pool", "httpcore._async.connection_pool", "h11", "anyio._backends._asyncio"),
    *("asyncio", "encodings.idna", "runpy", "sqlite3", "concurrent.futures.thread"),
)
# Repeated in each job's process: where python-dotenv finds the file depends on the module that calls it.
dotenv_calls: list[DotenvCall] = []


class SignedIn(Exception):
    """A person is signed in, and this version of the engine reads that when it is imported."""


def load() -> None:
    """Import the engine. Raises ImportError if it is not installed, and SignedIn."""
    with suppress(Refused):
        # A job with a SQLite store does this first.
        checkpoints.use_recent_sqlite()
    with secrets_hidden(dotenv_calls):
        importlib.import_module("crewai")
        for part in pkgutil.walk_packages(forkline_crewai.__path__, "forkline_crewai."):
            importlib.import_module(part.name)
        for name in LATE:
            with suppress(ImportError):
                importlib.import_module(name)
    refuse_sign_in()


def begin() -> None:
    """Read the environment files that the engine requested at import. Call it in a job's process."""
    findings.forbid_keys_and_hosts()
    with suppress(ImportError):
        dotenv: Any = importlib.import_module("dotenv")
        for caller, arguments, named in dotenv_calls:
            if arguments or named:
                dotenv.load_dotenv(*arguments, **named)
            elif path := file_above(Path(caller)):
                dotenv.load_dotenv(path)


def file_above(module: Path) -> Path | None:
    """Return the environment file in a module's folder or the nearest one above it, or None."""
    return next((folder / ".env" for folder in module.parents if (folder / ".env").is_file()), None)


def refuse_sign_in() -> None:
    """Raise SignedIn if an older engine may have read the sign-in, which cannot be hidden from it."""
    older: Any = sys.modules.get("crewai.cli.shared.token_manager")
    if older is not None and older.TokenManager().get_token():
        raise SignedIn("a person is signed in to CrewAI, and this version keeps the sign-in in its memory")
