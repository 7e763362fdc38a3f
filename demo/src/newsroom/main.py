#!/usr/bin/env python
"""Runs one of the newsroom's three, with checkpoints.

python -m newsroom.main article|digest|interview [--checkpoints PATH]
"""

import argparse
from concurrent.futures import Future
from pathlib import Path

from crewai.events import crewai_event_bus
from crewai.events.base_events import BaseEvent
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider

from newsroom.crew import Newsroom
from newsroom.flow import DigestFlow
from newsroom.interviewer import interviewer

INPUTS = {"topic": "AI checkpoints", "year": 2026, "sources": ["arXiv", "Hacker News"]}
CREW_EVENTS = [
    "crew_kickoff_started",
    "task_started",
    "task_completed",
    "task_failed",
    "crew_kickoff_completed",
]
FLOW_EVENTS = ["flow_started", "method_execution_finished", "method_execution_failed", "flow_finished"]
AGENT_EVENTS = ["lite_agent_execution_started", "lite_agent_execution_completed"]


def checkpoints(location: str, events: list[str]) -> CheckpointConfig:
    """Checkpoints at a location: a SQLite file if its name ends in .db, else a folder."""
    provider = SqliteProvider() if Path(location).suffix == ".db" else JsonProvider()
    return CheckpointConfig(location=location, provider=provider, on_events=events)


def wait_for_each_checkpoint() -> None:
    """Pause the run while a checkpoint is written.

    CrewAI writes them from other threads while the run continues. Two at once lose their order, and
    one is lost whole where an event arrives while it is being written.
    """
    emit = crewai_event_bus.emit
    awaited = {*CREW_EVENTS, *FLOW_EVENTS, *AGENT_EVENTS}

    def emit_and_wait(source: object, event: BaseEvent) -> Future[None] | None:
        written = emit(source, event)
        if written is not None and event.type in awaited:
            written.result()
        return written

    crewai_event_bus.emit = emit_and_wait


def article(location: str) -> str:
    """Run the crew."""
    crew = Newsroom().crew()
    crew.checkpoint = checkpoints(location, CREW_EVENTS)
    return str(crew.kickoff(inputs=INPUTS).raw)


def digest(location: str) -> str:
    """Run the flow."""
    flow = DigestFlow(checkpoint=checkpoints(location, FLOW_EVENTS))
    return str(flow.kickoff(inputs={"topic": INPUTS["topic"], "year": INPUTS["year"]}))


def interview(location: str) -> str:
    """Run the lone agent."""
    agent = interviewer()
    agent.checkpoint = checkpoints(location, AGENT_EVENTS)
    return str(agent.kickoff("What do people still get wrong about AI checkpoints in 2026?").raw)


def run() -> None:
    """What ``crewai run`` starts: the crew, unless another is named."""
    parser = argparse.ArgumentParser(prog="newsroom", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["article", "digest", "interview"], default="article")
    parser.add_argument(
        "--checkpoints", default="./.checkpoints", help="a folder, or a file that ends in .db"
    )
    options = parser.parse_args()
    wait_for_each_checkpoint()
    print({"article": article, "digest": digest, "interview": interview}[options.what](options.checkpoints))


if __name__ == "__main__":
    run()
