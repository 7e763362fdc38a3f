"""The preflight check: the effects of a checkpoint, then the components of its run. Nothing runs.

The first phase lists the effects and imports nothing. If a person has accepted all of them, the second phase
imports the project's code and restores the checkpoint.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_crewai import job
from forkline_crewai.restore import components, edits, effects, original, sanitizing
from forkline_crewai.run import entry_points, tools
from forkline_runner import effects as accepted_effects
from forkline_runner import project
from forkline_runner.findings import Report, recorded_imports, report_findings
from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def check(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Report the findings in one event. Return an empty result."""

    def find(report: Report) -> None:
        report["engine_version"] = job.report_start(reporter)
        _check(report, request, scratch)

    return report_findings(reporter, scratch, find)


def _check(report: Report, request: Request, scratch: Path) -> None:
    if request["location"]["store_kind"] == "sqlite":
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
    report["effects"] = accepted_effects.plain(found, request)
    if request["kind"] == "effects" or accepted_effects.unaccepted(found, request):
        report["is_complete"] = False
        return
    effects.pin_modules(saved, request)
    with recorded_imports(report):
        {"crew": _crew, "flow": _flow, "agent": _agent}[request["entity"]](
            report, request, body, saved, scratch
        )


def _crew(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    from forkline_crewai.restore import project_crew, restoring
    from forkline_crewai.run import model_providers

    events = restoring.events_in(body)
    if not request["entry_point"]:
        report["components"] = components.of_restored_crew(saved, events, tools.may_import)
        report["imports"] += components.modules_in(saved)
        entity, _lost = sanitizing.clean_crew(saved, tools.may_import, os.environ)
        _try_restoring(request, body, [entity], scratch)
        return
    crew = project_crew.made(request)
    _note_unwritable(report, crew)
    if not saved:
        report["components"] = components.of_project_crew(crew, {}, project_crew.unmatched())
        report["components"] += model_providers.missing(crew)
        return
    agents, tasks = project_crew.matched(crew, saved, request)
    report["components"] = [*components.of_project_crew(crew, saved, tasks), *model_providers.missing(crew)]
    for question in (*agents.questions, *tasks.questions):
        if question.choices:
            report["questions"].append(asdict(question))
        else:
            for sentence in project_crew.sentences_of(question):
                report["blocks"].append(sentence)
    _try_restoring(request, body, [], scratch)


def _flow(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    from forkline_crewai.restore import flow_results, restoring
    from forkline_crewai.run import flows, model_providers

    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    flow = flows.made_by(request["entry_point"])
    report["components"] = [*components.of_project_flow(flow, saved), *model_providers.missing(flow)]
    if saved:
        results = flow_results.results_of(saved, restoring.events_in(body))
        untyped = flow_results.untyped(flow, results)
        report["notes"] += [{"what": "untyped", "detail": name} for name in untyped]
        edits.edit_state(saved, request)
        flows.restore_state(flow, saved)
        _try_restoring(request, body, [], scratch)


def _agent(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    if request["entry_point"]:
        from crewai import Agent

        agent = entry_points.made_by(request["entry_point"], Agent, "agent")
        report["components"] = components.of_project_agent(agent)
        if saved:
            _try_restoring(request, body, [], scratch)
        return
    report["components"] = components.of_restored_agent(saved, tools.may_import)
    report["imports"] += components.modules_in(saved)
    entity, _lost = sanitizing.clean_agent(saved, tools.may_import, os.environ)
    _try_restoring(request, body, [entity], scratch)


def _try_restoring(request: Request, body: dict[str, Any], entities: list[Any], scratch: Path) -> None:
    """Restore the engine's state from a copy, as the run would. Raises Refused if the engine cannot."""
    from forkline_crewai.restore import restoring

    record = sanitizing.clean_record(body.get("event_record"))
    copy = restoring.copied({**body, "entities": entities, "event_record": record}, request, scratch)
    try:
        restoring.restored(copy, request)
    finally:
        # An error here would hide why the engine refused.
        shutil.rmtree(scratch, ignore_errors=True)


def _note_unwritable(report: Report, crew: Any) -> None:
    """Note if this engine could not write a checkpoint of the crew without Forkline's patches."""
    from crewai.state.runtime import RuntimeState

    try:
        RuntimeState(root=[crew]).model_dump_json()
    except Exception as error:
        report["notes"].append({"what": "unwritten", "detail": shortened(str(error).splitlines()[0], 300)})
