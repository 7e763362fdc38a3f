"""Crews inside a flow that were under way when a checkpoint was written: their finished tasks are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai import Crew
from crewai.tasks.task_output import TaskOutput

from forkline_crewai.restore import restoring
from forkline_crewai.run import crews
from forkline_runner.messages import gettext_noop as _

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import Request


def go_on(body: Mapping[str, Any], request: Request, reporter: Reporter) -> None:
    """Have a crew that a flow kicks off again take over what its like had finished, once for each.

    The engine runs the method that was under way from its beginning, so that its crew would be paid anew.
    A crew's like has the same tasks and inputs. With an edited state nothing is taken over: what the crew
    was made with may have changed.
    """
    events = restoring.events_in(body)
    unfinished = [entity for entity in body["entities"] if _is_under_way(entity, events)]
    if not unfinished:
        return
    if request["state"] is not None:
        reporter.warn(
            _("A crew inside the flow was under way: the state was edited, so it runs from its start.")
        )
        return
    kickoff, kickoff_natively = Crew.kickoff, Crew.akickoff

    def kicked_off(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        _take_over(self, inputs, unfinished, reporter)
        return kickoff(self, inputs, *rest, **named)

    async def kicked_off_natively(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        _take_over(self, inputs, unfinished, reporter)
        return await kickoff_natively(self, inputs, *rest, **named)

    Crew.kickoff, Crew.akickoff = kicked_off, kicked_off_natively


def _is_under_way(entity: Any, events: list[dict[str, Any]]) -> bool:
    """Whether it is a crew that has done something, in a method that has not finished since."""
    if not isinstance(entity, dict) or entity.get("entity_type") != "crew":
        return False
    if not any(task.get("output") for task in entity.get("tasks") or []):
        return False
    kickoff = entity.get("checkpoint_kickoff_event_id")
    begun = next((at for at, event in enumerate(events) if event.get("event_id") == kickoff), None)
    if begun is None:
        return False
    started = [event for event in events[:begun] if event.get("type") == "method_execution_started"]
    ended = [event for event in events[begun:] if event.get("type") == "method_execution_finished"]
    methods = {str(event.get("method_name")) for event in ended}
    return bool(started) and str(started[-1].get("method_name")) not in methods


def _take_over(crew: Any, inputs: Any, unfinished: list[Any], reporter: Reporter) -> None:
    like = next((saved for saved in unfinished if _are_alike(crew, inputs, saved)), None)
    if like is None:
        return
    unfinished.remove(like)
    kept = []
    for position, (task, saved) in enumerate(zip(crew.tasks, like["tasks"], strict=True), 1):
        if saved.get("output"):
            task.output = TaskOutput.model_validate(saved["output"])
            kept.append((position, str(task.id)))
    crews.hold({identifier for _position, identifier in kept})
    reporter.warn(
        _(
            "The crew %(name)s inside the flow goes on where it was: its finished tasks are kept "
            "(%(positions)s)."
        ),
        name=crew.name or "",
        positions=", ".join(str(position) for position, _identifier in kept),
    )


def _are_alike(crew: Any, inputs: Any, saved: Mapping[str, Any]) -> bool:
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
