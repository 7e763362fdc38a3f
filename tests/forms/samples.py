"""Contents for tests of forms: small checkpoints in the engine's format."""

from typing import Any

from viewer.engines.crewai.contents import Contents, contents_of


def task(number: int, output: str | dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a task as the engine writes it. A text is the ``raw`` of its output."""
    if isinstance(output, str):
        output = {"raw": output, "json_dict": None, "pydantic": None}
    made: dict[str, Any] = {
        "id": f"task-{number}",
        "name": None,
        "description": f"Task {number} about AI",
        "checkpoint_original_description": f"Task {number} about {{topic}}",
        "expected_output": "a text",
        "agent": {"role": f"Agent {number}"},
        "output": output,
    }
    return {**made, **changes}


def crew(
    tasks: list[dict[str, Any]], inputs: dict[str, Any], agents: list[dict[str, Any]] | None = None
) -> Contents:
    """Return the checkpoint of a crew."""
    entity = {"entity_type": "crew", "name": "news", "tasks": tasks, "checkpoint_inputs": inputs}
    entity["agents"] = agents or []
    return contents_of({"entities": [entity], "event_record": {"nodes": {}}})


def flow(state: dict[str, Any]) -> Contents:
    """Return the checkpoint of a flow after one of its methods."""
    entity = {
        "entity_type": "flow",
        "name": "Desk",
        "checkpoint_state": state,
        "checkpoint_completed_methods": ["outline"],
        "checkpoint_method_counts": {"outline": 1},
    }
    return contents_of({"entities": [entity], "event_record": {"nodes": {}}})


def agent(messages: Any) -> Contents:
    """Return the checkpoint of an agent with this prompt."""
    asked = {"type": "lite_agent_execution_started", "event_id": "e", "messages": messages}
    entity = {"entity_type": "agent", "id": "a", "role": "Interviewer"}
    return contents_of({"entities": [entity], "event_record": {"nodes": {"e": {"event": asked}}}})
