"""The second phase of a preflight check: the components of a run, and whether its checkpoint restores.

Imports the engine and the project's code, and runs nothing.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai import Agent
from crewai.state.runtime import RuntimeState

from forkline_crewai import (
    components,
    crews,
    effects,
    entry_points,
    flow_states,
    flows,
    models,
    original,
    restoring,
)
from forkline_crewai.components import Matching
from forkline_runner.reporting import Refused, shortened

if TYPE_CHECKING:
    from forkline_runner.findings import Report
    from viewer.engines.runner_protocol import Request


def add_components(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    """Add the components to the report, and restore the checkpoint from a copy, as the run would.

    ``saved`` is the checkpoint's root entity; both it and ``body`` are empty for a new run. Raises Refused.
    """
    add = {"crew": _add_crew, "flow": _add_flow, "flow_state": _add_state, "agent": _add_agent}[
        request["entity"]
    ]
    add(report, request, body, saved, scratch)


def _add_crew(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    events = restoring.events_in(body)
    if not request["entry_point"]:
        report["components"] = components.of_restored_crew(saved, events, effects.may_import)
        report["imports"] += components.modules_in(saved)
        entity, _lost = effects.clean_crew(saved, effects.may_import, os.environ)
        restoring.restored(body, [entity], request, scratch)
        return
    crew = crews.new_crew(request)
    _note_unwritable(report, crew)
    if not saved:
        report["components"] = components.of_project_crew(crew, {}, Matching())
        report["components"] += models.missing_models(crew)
        return
    agents, tasks = crews.matched(crew, saved, request)
    report["components"] = [*components.of_project_crew(crew, saved, tasks), *models.missing_models(crew)]
    for question in (*agents.questions, *tasks.questions):
        if question.choices:
            report["questions"].append(asdict(question))
        else:
            report["blocks"] += crews.sentences_of(question)
    restoring.restored(body, [], request, scratch)


def _add_flow(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    flow = flows.made_by(request["entry_point"])
    report["components"] = [*components.of_project_flow(flow, saved), *models.missing_models(flow)]
    if saved:
        results = flows.results_of(saved, restoring.events_in(body))
        report["notes"] += [{"what": "untyped", "detail": name} for name in flows.untyped(flow, results)]
        original.edit_state(saved, request)
        flows.restore_state(flow, saved)
        restoring.restored(body, [], request, scratch)


def _add_state(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    flow_states.add_components(report, request, original.StoredState(**saved))


def _add_agent(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    if request["entry_point"]:
        agent = entry_points.made_by(request["entry_point"], Agent, "agent")
        report["components"] = components.of_project_agent(agent)
        if saved:
            restoring.restored(body, [], request, scratch)
        return
    report["components"] = components.of_restored_agent(saved, effects.may_import)
    report["imports"] += components.modules_in(saved)
    entity, _lost = effects.clean_agent(saved, effects.may_import, os.environ)
    restoring.restored(body, [entity], request, scratch)


def _note_unwritable(report: Report, crew: Any) -> None:
    """Note if this engine could not write a checkpoint of the crew without Forkline's patches."""
    try:
        RuntimeState(root=[crew]).model_dump_json()
    except Exception as error:
        report["notes"].append({"what": "unwritten", "detail": shortened(str(error).splitlines()[0], 300)})
