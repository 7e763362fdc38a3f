"""Runs, resumes or forks a crew, a flow or an agent, as a job's request specifies."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore import edits, effects, original, sanitizing
from forkline_crewai.run import tools
from forkline_runner import effects as accepted_effects
from forkline_runner import project
from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


# The first version whose checkpoints contain their parent and branch.
MIN_ENGINE = "1.14.2"


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request with CrewAI. Return the result as text. Raises Refused before anything has run."""
    if request["kind"] in ("preflight", "effects"):
        return _preflight(request, scratch, reporter)
    report_start(reporter)
    original.refuse_other_location(request)
    if request["kind"] == "run":
        return _run_from_the_start(request, reporter)
    body = original.read_original(request)
    root = edits.root_of(body, request["entity"])
    if request["entity"] == "crew":
        edits.edit_crew(root, request)
    elif request["entity"] == "flow":
        if not request["entry_point"]:
            raise Refused("crewai.flow_needs_entry_point")
        edits.edit_state(root, request)
    project.enter(request["folder"])
    accepted_effects.refuse_unaccepted(effects.effects_of(root, request, os.environ), request)
    effects.pin_modules(root, request)
    entities, lost = _entities(root, request)
    if lost:
        reporter.warn(
            "crewai.not_restored",
            lost=", ".join(lost),
        )
    _isolate()
    return _run_engine(request, body, root, entities, scratch, reporter)


def _preflight(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Restore the state from a copy, report the findings, and discard the copy. Return an empty result."""
    _isolate()
    from forkline_crewai import preflight

    return preflight.check(request, scratch, reporter)


def report_start(reporter: Reporter) -> str:
    """Report the installed versions. Return the engine's. Raises Refused if it is missing or too old."""
    return project.report_start(
        reporter,
        ["crewai"],
        MIN_ENGINE,
        label="crewai",
        missing="crewai.not_installed",
        too_old="crewai.version_too_old",
    )


def _run_from_the_start(request: Request, reporter: Reporter) -> str:
    if request["location"]["store_kind"] == "sqlite":
        original.use_recent_sqlite()
    project.enter(request["folder"])
    _isolate()
    from forkline_crewai.run import new_runs

    return new_runs.run(request, reporter)


def _run_engine(
    request: Request,
    body: dict[str, Any],
    root: dict[str, Any],
    entities: list[Any],
    scratch: Path,
    reporter: Reporter,
) -> str:
    # The engine takes seconds to import: refuse whatever can be refused without it first.
    from forkline_crewai import engine_patches
    from forkline_crewai.restore import restoring

    tasks = root.get("tasks") or [] if request["entity"] == "crew" else []
    positions = {str(task["id"]): position for position, task in enumerate(tasks, 1)}
    engine_patches.apply_all(request, reporter, positions)
    record = sanitizing.clean_record(body.get("event_record"))
    copy = restoring.copied({**body, "entities": entities, "event_record": record}, request, scratch)
    try:
        state = restoring.restored(copy, request)
    finally:
        # An error here would hide why the engine refused.
        shutil.rmtree(scratch, ignore_errors=True)
    return _run_on(state, root, body, request, reporter)


def _run_on(
    state: Any, root: dict[str, Any], body: dict[str, Any], request: Request, reporter: Reporter
) -> str:
    """Run the remaining steps of a crew, a flow or an agent. Return the result as text."""
    from forkline_crewai.patches.questions import pausing_providers
    from forkline_crewai.restore import pending_feedback
    from forkline_crewai.run import agents, crews, flows

    if request["entity"] == "crew":
        crew = crews.prepare(state, root, body, request, reporter)
        reporter.write("steps", steps=_steps(request, [root, *(root.get("tasks") or [])]))
        return crews.run(crew)
    if request["entity"] == "flow":
        flow = flows.prepare(state, root, body, request, reporter)
        pausing_providers.apply_to_methods(flow, reporter.questions)
        pending_feedback.continue_pending(flow, root, body, request, reporter.questions)
        flows.replay_finished(flow, root, body, reporter)
        reporter.write("steps", steps=flows.steps_of(flow, request))
        return flows.run(flow)
    agent = agents.prepare(state, root, body, request, reporter)
    reporter.write("steps", steps=_steps(request, [root]))
    return agents.run(agent, body, request)


def _entities(root: dict[str, Any], request: Request) -> tuple[list[Any], list[str]]:
    """Return the entities to restore from the checkpoint, and the names of what is dropped from them.

    If the project's code makes the entity, none is restored: only the checkpoint's texts and values are used.
    """
    if request["entry_point"] or request["entity"] == "flow":
        return [], []
    clean = sanitizing.clean_crew if request["entity"] == "crew" else sanitizing.clean_agent
    entity, lost = clean(root, tools.may_import, os.environ)
    return [entity], lost


def _steps(request: Request, units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("name", "description", "role")
    titles = {
        str(unit.get("id")): next((unit[name] for name in names if unit.get(name)), "") for unit in units
    }
    return [
        {
            "unit": step["task"],
            "position": position,
            "title": shortened(titles.get(step["task"], ""), 200),
            "action": step["action"],
        }
        for position, step in enumerate(request["steps"], 1)
    ]


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
    """Wait for the last checkpoint's write, if the engine was imported."""
    writes: Any = sys.modules.get("forkline_crewai.report.writes")
    if writes is not None:
        writes.flush()
