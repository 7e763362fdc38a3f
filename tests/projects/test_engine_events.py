"""The events of an installed CrewAI, read from its source."""

from pathlib import Path

from viewer.engines.crewai.checkpoint_events import USUAL, checkpoint_events


def test_the_events_of_the_installed_version_are_found_in_groups(engine_python: Path) -> None:
    groups = {group.name: group.events for group in checkpoint_events(engine_python)}
    assert list(groups)[:4] == ["task", "crew", "agent", "flow"]
    assert "other" not in groups
    assert groups["task"][:3] == ("task_started", "task_completed", "task_failed")
    assert "llm_stream_chunk" in groups["llm"]
    assert "SIGTERM" in groups["system"]
    for usual in USUAL:
        assert set(usual.events) <= set(groups[usual.name])


def test_without_a_readable_engine_common_events_are_offered(tmp_path: Path) -> None:
    assert checkpoint_events(None) == USUAL
    engine = tmp_path / "lib/python3.11/site-packages/crewai/state"
    engine.mkdir(parents=True)
    assert checkpoint_events(tmp_path / "bin/python") == USUAL
    (engine / "checkpoint_config.py").write_text("CheckpointEventType = Literal[")
    assert checkpoint_events(tmp_path / "bin/python") == USUAL
