"""The choice of events that write a checkpoint, and of how many checkpoints stay."""

from django.utils.datastructures import MultiValueDict

from viewer.engines import engine_named
from viewer.engines.crewai.recorded_events import USUAL
from viewer.engines.entry_points import EventGroup
from viewer.web.launch.options import CheckpointsForm

GROUPS = (*USUAL, EventGroup("llm", ("llm_call_started", "llm_stream_chunk")))


def read(most: str = "", *chosen: str) -> CheckpointsForm:
    sent = MultiValueDict({"max_checkpoints": [most], "checkpoint_events": list(chosen)})
    return CheckpointsForm(sent, engine_named("crewai"), "crew", GROUPS, ("task_completed",))


def test_without_a_choice_the_former_settings_stay() -> None:
    shown = CheckpointsForm(None, engine_named("crewai"), "crew", GROUPS, ("task_completed",))
    assert shown.settings == {}
    assert shown.summary == "unchanged: task completed"
    assert not shown.is_open


def test_chosen_events_and_a_number_are_in_the_request() -> None:
    chosen = read("3", "task_started", "task_completed", "task_started")
    assert chosen.settings == {"events": ["task_started", "task_completed"], "max_checkpoints": 3}
    assert chosen.summary == "task started, task completed, keep the latest 3"
    assert not chosen.errors


def test_an_invalid_number_is_refused() -> None:
    for most in ("0", "-1", "three", "1.5", "9" * 30, "²"):
        chosen = read(most, "task_started")
        assert [chosen[name].id_for_label for name in chosen.errors] == ["max-checkpoints"], most
    assert not read("", "*").errors


def test_frequent_events_cause_a_warning_unless_old_checkpoints_are_deleted() -> None:
    assert not read("", "task_completed").warning
    for often in ("agent_execution_started", "llm_stream_chunk", "*"):
        assert "many checkpoints" in read("", often).warning
        assert not read("5", often).warning
    hints = {group.name: group.hint for group in read().groups}
    assert hints["task"] == ""
    assert "many checkpoints" in hints["agent"]
    assert "write no checkpoints at them" in hints["llm"]
