"""The preflight check: the effects of a checkpoint, then what its run would have and lack. Nothing runs.

The first phase lists the effects and imports nothing. Only where a person has accepted them all does the
second phase import the project's code and restore the checkpoint.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore import components, edits, effects, original, sanitizing
from forkline_crewai.run import project
from forkline_runner import placeholders
from forkline_runner.messages import english
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import Request

Report = dict[str, Any]
# Whoever asked for it waits much shorter; a project whose import never ends must not stay for ever.
MOST_SECONDS = 600
MOST_MODULES = 60


def look(request: Request, scratch: Path, reporter: Reporter, begin: Callable[[Reporter], None]) -> str:
    """Write one line of what was found. What speaks against the run is part of it, and no failure."""
    ending = threading.Timer(MOST_SECONDS, os._exit, (1,))
    ending.daemon = True
    ending.start()
    report: Report = {
        "python_version": platform.python_version(),
        "engine_version": "",
        "checkpoint_version": "",
        "sqlite_version": "",
        "effects": [],
        "is_complete": True,
        "imports": [],
        "components": [],
        "questions": [],
        "blocks": [],
        "block_words": [],
        "notes": [],
    }
    try:
        placeholders.forbid()
        begin(reporter)
        report["engine_version"] = importlib.metadata.version("crewai")
        _look_into(report, request, scratch)
    except Refused as refused:
        report["blocks"].append(str(refused))
        report["block_words"].append(refused.words)
    report["components"] = report["components"][: components.MOST_PARTS]
    report["imports"] = sorted(set(report["imports"]))[:MOST_MODULES]
    reporter.write("preflight", report=report)
    return ""


def _look_into(report: Report, request: Request, scratch: Path) -> None:
    if request["location"]["provider"] == "sqlite":
        original.use_recent_sqlite()
        report["sqlite_version"] = getattr(sys.modules.get("sqlite3"), "sqlite_version", "")
    body: dict[str, Any] = {}
    saved: dict[str, Any] = {}
    if request["checkpoint"]["source"]:
        body = original.read_original(request)
        saved = edits.root_of(body, request["entity"])
        report["checkpoint_version"] = str(body.get("crewai_version") or "")
    project.enter(request["folder"])
    found = effects.effects_of(saved, request, os.environ)
    report["effects"] = effects.plain(found)
    if request["kind"] == "effects" or effects.unaccepted(found, request):
        report["is_complete"] = False
        return
    effects.pin_modules(saved, request)
    known = set(sys.modules)
    try:
        {"crew": _crew, "flow": _flow, "agent": _agent}[request["entity"]](
            report, request, body, saved, scratch
        )
    finally:
        report["imports"] += [name for name in set(sys.modules) - known if _is_of_the_project(name)]


def _crew(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    from forkline_crewai.restore import project_crew, restoring
    from forkline_crewai.run import model_providers

    events = restoring.events_in(body)
    if not request["entry_point"]:
        report["components"] = components.of_restored_crew(saved, events, project.may_import)
        report["imports"] += components.modules_in(saved)
        entity, _lost = sanitizing.clean_crew(saved, project.may_import, os.environ)
        _restored(request, body, [entity], scratch)
        return
    crew = project_crew.made(request)
    _note_what_cannot_be_written(report, crew)
    if not saved:
        report["components"] = components.of_own_crew(crew, {}, project_crew.unmatched())
        report["components"] += model_providers.missing(crew)
        return
    agents, tasks = project_crew.matched(crew, saved, request)
    report["components"] = [*components.of_own_crew(crew, saved, tasks), *model_providers.missing(crew)]
    for question in (*agents.questions, *tasks.questions):
        if question.choices:
            report["questions"].append(asdict(question))
        else:
            for sentence in project_crew.words_of(question):
                report["blocks"].append(english(sentence))
                report["block_words"].append(sentence)
    _restored(request, body, [], scratch)


def _flow(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    from forkline_crewai.restore import flow_results, restoring
    from forkline_crewai.run import flows, model_providers

    if not request["entry_point"]:
        raise Refused(
            _("A flow needs its own code. Name its entry point, such as module:MyFlow or flow.yaml.")
        )
    flow = flows.made_by(request["entry_point"])
    report["components"] = [*components.of_own_flow(flow, saved), *model_providers.missing(flow)]
    if saved:
        results = flow_results.results_of(saved, restoring.events_in(body))
        untyped = flow_results.untyped(flow, results)
        report["notes"] += [{"what": "untyped", "detail": name} for name in untyped]
        edits.edit_state(saved, request)
        flows.take_over(flow, saved)
        _restored(request, body, [], scratch)


def _agent(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    if request["entry_point"]:
        from crewai import Agent

        agent = project.made_by(request["entry_point"], Agent, "agent")
        report["components"] = components.of_own_agent(agent)
        if saved:
            _restored(request, body, [], scratch)
        return
    report["components"] = components.of_restored_agent(saved, project.may_import)
    report["imports"] += components.modules_in(saved)
    entity, _lost = sanitizing.clean_agent(saved, project.may_import, os.environ)
    _restored(request, body, [entity], scratch)


def _restored(request: Request, body: dict[str, Any], entities: list[Any], scratch: Path) -> None:
    """Have the engine make its state of a copy, as the run would. Raises Refused where it cannot."""
    from forkline_crewai.restore import restoring

    record = sanitizing.clean_record(body.get("event_record"))
    copy = restoring.copied({**body, "entities": entities, "event_record": record}, request, scratch)
    try:
        restoring.restored(copy, request)
    finally:
        shutil.rmtree(scratch)


def _note_what_cannot_be_written(report: Report, crew: Any) -> None:
    """Where this engine by itself could write no checkpoint of the crew: ours name what it cannot hold."""
    from crewai.state.runtime import RuntimeState

    try:
        RuntimeState(root=[crew]).model_dump_json()
    except Exception as error:
        report["notes"].append({"what": "unwritten", "detail": shortened(str(error).splitlines()[0], 300)})


def _is_of_the_project(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return bool(file) and project.is_in_project(Path(str(file)))
