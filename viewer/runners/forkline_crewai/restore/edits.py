"""Applies a person's edits to a checkpoint's data. Does not import the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.host.jobs.request import OutputEdit, Request


Entity = dict[str, Any]
MISSING = {
    "crew": "crewai.no_crew",
    "flow": "crewai.no_flow",
    "agent": "crewai.no_agent",
}


def root_of(body: Mapping[str, Any], kind: str) -> Entity:
    """Return the root entity: the first of this kind that is not an agent's executor. Raises Refused."""
    for entity in body["entities"]:
        if isinstance(entity, dict) and entity.get("entity_type") == kind and not entity.get("executor_type"):
            return entity
    raise Refused(MISSING[kind])


def edit_crew(crew: Entity, request: Request) -> None:
    """Edit or remove the outputs of the crew's tasks. Raises Refused if the plan or an edit does not fit."""
    tasks = [task for task in crew.get("tasks") or [] if isinstance(task, dict)]
    planned = [step["task"] for step in request["steps"]]
    if planned and planned != [str(task.get("id")) for task in tasks]:
        raise Refused("crewai.plan_outdated")
    again = {step["task"] for step in request["steps"] if step["action"] == "again"}
    for position, task in enumerate(tasks, 1):
        edit = request["outputs"].get(str(task.get("id")))
        if edit is not None:
            _edit_output(task, edit, position)
        elif str(task.get("id")) in again:
            task["output"] = None


def edit_state(flow: Entity, request: Request) -> None:
    """Set the edited fields of the flow's state."""
    if request["state"] is not None:
        flow["checkpoint_state"] = {**(flow.get("checkpoint_state") or {}), **request["state"]}


def _edit_output(task: Entity, edit: OutputEdit, position: int) -> None:
    """Change the text, the JSON value and the model of an output: readers use any of the three."""
    output = task.get("output")
    if not isinstance(output, dict):
        raise Refused("crewai.output_of_unfinished_task", position=position)
    is_json = output.get("json_dict") is not None or output.get("pydantic") is not None
    is_json = is_json or output.get("output_format") in {"json", "pydantic"} or "json" in edit
    if not is_json:
        output["raw"] = edit["text"]
    else:
        value = edit["json"] if "json" in edit else _parsed(edit["text"], position)
        output["raw"] = json.dumps(value, ensure_ascii=False) if "json" in edit else edit["text"]
        for name in ("json_dict", "pydantic"):
            if output.get(name) is not None:
                output[name] = value
    # These messages led to the output before the edit.
    output["messages"] = []


def _parsed(text: str, position: int) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Refused(
            "crewai.output_not_json",
            position=position,
            error=error,
        ) from error
    if not isinstance(value, dict):
        raise Refused("crewai.output_not_json_object", position=position)
    return value
