"""The redacted values that a run from a stored copy would receive, and the edits that replace them."""

from typing import Any

from tests.forms.samples import task
from viewer.engines.crewai.contents import Contents, contents_of
from viewer.engines.crewai.planning import plan_of, units_of
from viewer.engines.plan import Edits
from viewer.launching.refusals import digest_of, find_redacted_parts

HIDDEN = "the key is [redacted]"


def hidden_places(contents: Contents, edits: Edits) -> list[str]:
    return find_redacted_parts(contents, edits, plan_of(contents.kind, units_of(contents), edits))


def crew() -> Contents:
    entity: dict[str, Any] = {
        "entity_type": "crew",
        "tasks": [task(1, HIDDEN), task(2, {"raw": "{}", "json_dict": {"deep": [HIDDEN]}}), task(3)],
        "checkpoint_inputs": {"topic": "AI", "api_key": "[redacted]", "list": [{"a": HIDDEN}]},
    }
    return contents_of({"entities": [entity]})


def test_redacted_inputs_and_outputs_are_named() -> None:
    assert hidden_places(crew(), Edits()) == [
        "the input api_key",
        "the input list",
        "the output of task 1",
        "the output of task 2",
    ]


def test_edited_values_and_repeated_tasks_are_not_named() -> None:
    edits = Edits(inputs={"api_key": "mine"}, outputs={"task-1": "my own"})
    assert hidden_places(crew(), edits) == ["the input list"]
    edits = Edits(again=frozenset({"task-1"}), keep=frozenset({"task-2"}))
    assert hidden_places(crew(), edits)[2:] == ["the output of task 2"]


def test_the_redacted_state_and_results_of_a_flow_are_named() -> None:
    entity = {
        "entity_type": "flow",
        "checkpoint_state": {"id": "1", "topic": "AI", "token": "[redacted]"},
        "checkpoint_completed_methods": ["look"],
        "checkpoint_method_counts": {"look": 1},
        "checkpoint_method_outputs": [{"method": "look", "output": {"seen": HIDDEN}}],
    }
    contents = contents_of({"entities": [entity]})
    returned = "the result of the method look"
    assert hidden_places(contents, Edits()) == ["token in the flow's state", returned]
    assert hidden_places(contents, Edits(state={"token": "mine"})) == [returned]


def test_the_redacted_prompt_of_an_agent_is_named() -> None:
    event = {"type": "lite_agent_execution_started", "messages": HIDDEN, "event_id": "1"}
    body = {
        "entities": [{"entity_type": "agent", "id": "a", "role": "Writer"}],
        "event_record": {"nodes": {"1": {"event": event}}},
    }
    assert hidden_places(contents_of(body), Edits()) == ["the agent's prompt"]
    assert hidden_places(contents_of(body), Edits(inputs={"messages": "Hello"})) == []


def test_consent_applies_to_the_named_values_only() -> None:
    assert digest_of(["a", "b"]) != digest_of(["a"])
