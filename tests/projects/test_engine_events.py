"""The events of an installed CrewAI, read from its source."""

from pathlib import Path

from django.utils.translation import override

from viewer.engines.crewai.labels import LABELS
from viewer.engines.crewai.recorded_events import USUAL, checkpoint_events
from viewer.presentation.run.branches import trigger_label


def test_the_events_of_the_installed_version_are_found_in_groups(engine_python: Path) -> None:
    groups = {group.name: group.events for group in checkpoint_events(engine_python)}
    assert list(groups)[:4] == ["task", "crew", "agent", "flow"]
    assert "other" not in groups
    assert groups["task"][:3] == ("task_started", "task_completed", "task_failed")
    assert "llm_stream_chunk" in groups["llm"]
    assert "SIGTERM" in groups["system"]
    for usual in USUAL:
        assert set(usual.events) <= set(groups[usual.name])


def test_every_event_of_the_installed_version_has_a_label_in_each_language(engine_python: Path) -> None:
    events = {name for group in checkpoint_events(engine_python) for name in group.events}
    assert events - LABELS.keys() == set()
    with override("ja"):
        same = {name for name in events if trigger_label(name) in (LABELS[name], name.replace("_", " "))}
    assert same == set()


def test_an_event_of_a_later_version_is_shown_by_its_name() -> None:
    assert trigger_label("crew_dreamed_of_sheep") == "crew dreamed of sheep"


def test_without_a_readable_engine_common_events_are_offered(tmp_path: Path) -> None:
    assert checkpoint_events(None) == USUAL
    engine = tmp_path / "lib/python3.11/site-packages/crewai/state"
    engine.mkdir(parents=True)
    assert checkpoint_events(tmp_path / "bin/python") == USUAL
    (engine / "checkpoint_config.py").write_text("CheckpointEventType = Literal[")
    assert checkpoint_events(tmp_path / "bin/python") == USUAL
