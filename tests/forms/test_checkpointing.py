"""Choosing which events write a checkpoint, and how many stay."""

from viewer.engines import engine_named
from viewer.engines.checkpoint_events import EventGroup
from viewer.engines.crewai.events import USUAL
from viewer.forms.checkpointing import Checkpointing, read_checkpointing

GROUPS = (*USUAL, EventGroup("llm", ("llm_call_started", "llm_stream_chunk")))


def read(most: str = "", *chosen: str) -> Checkpointing:
    return read_checkpointing(
        engine_named("crewai"), GROUPS, "crew", ("task_completed",), {"checkpoint_most": most}, chosen
    )


def test_nothing_chosen_leaves_what_was() -> None:
    shown = read_checkpointing(engine_named("crewai"), GROUPS, "crew", ("task_completed",), None, ())
    assert shown.settings == {}
    assert shown.summary == "unchanged: task completed"
    assert not shown.is_open


def test_chosen_events_and_a_number_are_asked_for() -> None:
    chosen = read("3", "task_started", "task_completed", "task_started")
    assert chosen.settings == {"events": ["task_started", "task_completed"], "most": 3}
    assert chosen.summary == "task started, task completed, the newest 3 stay"
    assert not chosen.errors


def test_an_event_that_is_not_known_and_a_number_that_is_none_are_refused() -> None:
    for most in ("0", "-1", "three", "1.5", "9" * 30, "²"):
        chosen = read(most, "task_dreamt")
        assert [error[0] for error in chosen.errors] == ["checkpoint-events", "checkpoint-most"], most
        assert "task_dreamt" in chosen.events_error
    assert not read("", "*").errors


def test_frequent_events_are_warned_of_unless_only_some_stay() -> None:
    assert not read("", "task_completed").warning
    for often in ("agent_execution_started", "llm_stream_chunk", "*"):
        assert "many checkpoints" in read("", often).warning
        assert not read("5", often).warning
    hints = {group.name: group.hint for group in read().groups}
    assert hints["task"] == ""
    assert "many checkpoints" in hints["agent"]
    assert "write at none of them" in hints["llm"]
