"""Restores the finished tasks of crews inside a flow that were running when the checkpoint was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai.tasks.task_output import TaskOutput

from forkline_crewai.patches import held_tasks, inner_kickoffs
from forkline_crewai.restore import restoring

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def continue_crews(body: Mapping[str, Any], request: Request, reporter: Reporter) -> None:
    """Give each unfinished crew its finished tasks' outputs when the flow kicks off an equal crew again.

    Crews are equal if they have the same name, tasks and inputs. If the state was edited, nothing is kept:
    the crew may depend on the edited values.
    """
    events = restoring.events_in(body)
    unfinished = [entity for entity in body["entities"] if _is_unfinished(entity, events)]
    if not unfinished:
        return
    if request["state"] is not None:
        reporter.warn("crewai.inner_crew_restarts")
        return
    inner_kickoffs.apply(lambda crew, inputs: _restore_outputs(crew, inputs, unfinished, reporter))


def _is_unfinished(entity: Any, events: list[dict[str, Any]]) -> bool:
    """Return whether an entity is a crew with finished tasks, inside a method that has not finished since."""
    if not isinstance(entity, dict) or entity.get("entity_type") != "crew":
        return False
    if not any(task.get("output") for task in entity.get("tasks") or []):
        return False
    kickoff = entity.get("checkpoint_kickoff_event_id")
    began = next((at for at, event in enumerate(events) if event.get("event_id") == kickoff), None)
    if began is None:
        return False
    started = [event for event in events[:began] if event.get("type") == "method_execution_started"]
    ended = [event for event in events[began:] if event.get("type") == "method_execution_finished"]
    methods = {str(event.get("method_name")) for event in ended}
    return bool(started) and str(started[-1].get("method_name")) not in methods


def _restore_outputs(crew: Any, inputs: Any, unfinished: list[Any], reporter: Reporter) -> None:
    equal = next((saved for saved in unfinished if _are_equal(crew, inputs, saved)), None)
    if equal is None:
        return
    unfinished.remove(equal)
    kept = []
    for position, (task, saved) in enumerate(zip(crew.tasks, equal["tasks"], strict=True), 1):
        if saved.get("output"):
            task.output = TaskOutput.model_validate(saved["output"])
            kept.append((position, str(task.id)))
    held_tasks.apply({identifier for _position, identifier in kept})
    reporter.warn(
        "crewai.inner_crew_continues",
        name=crew.name or "",
        positions=", ".join(str(position) for position, _identifier in kept),
    )


def _are_equal(crew: Any, inputs: Any, saved: Mapping[str, Any]) -> bool:
    texts = [
        str(task.get("checkpoint_original_description") or task["description"]) for task in saved["tasks"]
    ]
    return (
        [task.description.strip() for task in crew.tasks] == [text.strip() for text in texts]
        and (saved.get("name") or "") == (crew.name or "")
        and _plain(inputs) == _plain(saved.get("checkpoint_inputs"))
    )


def _plain(inputs: Any) -> Any:
    return json.loads(json.dumps(inputs or {}, default=str))
