"""Runs one of the three and keeps checkpoints: record.py crew|plain|flow|agent json|sqlite LOCATION."""

import sqlite3
import sys
import threading

if sqlite3.sqlite_version_info < (3, 45):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

from crewai.events.event_bus import crewai_event_bus
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider

# A run that does not wait for its checkpoints loses some of them, now and then.
emit = crewai_event_bus.emit


def emit_and_wait(source, event):
    future = emit(source, event)
    if future is not None and not threading.current_thread().name.startswith("CrewAISyncHandler"):
        future.result(20)
    return future


crewai_event_bus.emit = emit_and_wait

EVENTS = {
    "crew": ["task_started", "task_completed"],
    "flow": ["method_execution_finished"],
    "plain": ["task_completed"],
    "agent": ["lite_agent_execution_started", "lite_agent_execution_completed"],
}
INPUTS = {"topic": "AI", "year": 2026, "tags": ["a", "b"]}


def main(kind: str, provider: str, location: str) -> None:
    checkpoint = CheckpointConfig(
        location=location,
        on_events=EVENTS[kind],
        provider=SqliteProvider() if provider == "sqlite" else JsonProvider(),
    )
    if kind == "crew":
        from press_crew import make_crew

        crew = make_crew()
        crew.checkpoint = checkpoint
        crew.kickoff(inputs=dict(INPUTS))
    elif kind == "plain":
        # Without inputs, so that its texts still hold their placeholders.
        from press_crew import make_crew

        crew = make_crew()
        crew.checkpoint = checkpoint
        crew.kickoff()
    elif kind == "flow":
        from press_flow import PressFlow

        flow = PressFlow()
        flow.checkpoint = checkpoint
        flow.kickoff(inputs={"topic": "AI", "year": 2026})
    else:
        from press_agent import interviewer

        agent = interviewer()
        agent.checkpoint = checkpoint
        agent.kickoff("Ask about AI")
    crewai_event_bus.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
