"""Runs one of KINDS and keeps checkpoints: record.py KIND json|sqlite LOCATION."""

import builtins
import importlib
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

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
        # The engine's own run does not see how a write of its fails, not even by a panic.
        future.exception(20)
    return future


crewai_event_bus.emit = emit_and_wait

TASKS = ["task_started", "task_completed", "task_failed"]
METHODS = ["method_execution_finished"]
INPUTS = {"topic": "AI", "year": 2026, "tags": ["a", "b"]}
# What runs, the events that it writes a checkpoint at, and what it is given.
KINDS = {
    "crew": ("press_crew:make_crew", ["task_started", "task_completed"], INPUTS),
    # Without inputs, so that its texts still hold their placeholders.
    "plain": ("press_crew:make_crew", ["task_completed"], None),
    "flow": ("press_flow:PressFlow", METHODS, {"topic": "AI", "year": 2026}),
    "agent": (
        "press_agent:interviewer",
        ["lite_agent_execution_started", "lite_agent_execution_completed"],
        "Ask about AI",
    ),
    "simple": ("press_parts:plain", TASKS, INPUTS),
    "json": ("press_parts:with_json", TASKS, INPUTS),
    "pydantic": ("press_parts:with_pydantic", TASKS, INPUTS),
    "converted": ("press_parts:with_converter", TASKS, INPUTS),
    "class tool": ("press_parts:with_class_tool", TASKS, INPUTS),
    "used tool": ("press_parts:with_class_tool", TASKS, INPUTS),
    "hierarchical": ("press_orders:hierarchical", TASKS, INPUTS),
    "asynchronous": ("press_orders:asynchronous", TASKS, INPUTS),
    "joining": ("press_orders:joining", TASKS, INPUTS),
    "conditional": ("press_orders:conditional", TASKS, INPUTS),
    "joined": ("press_flows:JoinedFlow", METHODS, {"topic": "AI"}),
    "turning": ("press_flows:TurningFlow", METHODS, {"topic": "AI", "year": 2026}),
    "crew flow": ("press_flows:CrewFlow", METHODS, {"topic": "AI"}),
    "asking": ("press_asking:asking", TASKS, INPUTS),
    "review": ("press_asking:ReviewFlow", [*METHODS, "flow_paused"], {"topic": "AI"}),
    "kept": ("press_asking:KeptFlow", METHODS, {"topic": "AI"}),
    "curious": ("press_asking:CuriousFlow", METHODS, {"topic": "AI"}),
    "read": ("press_results:ReadFlow", METHODS, {"topic": "AI"}),
    "late": ("press_providers:LateFlow", METHODS, {"skips": True}),
    "words": ("press_input:WordFlow", METHODS, {}),
    "knowing": ("press_memory:knowing", TASKS, INPUTS),
    "remembering": ("press_memory:remembering", TASKS, INPUTS),
    "remembering apart": ("press_memory:remembering_apart", TASKS, INPUTS),
    "hooked": ("press_hooks:hooked", TASKS, INPUTS),
    "facts": ("press_results:FactFlow", METHODS, {"topic": "AI"}),
    "plain flow": ("press_results:PlainFlow", METHODS, {"topic": "AI"}),
    "at once": ("press_results:AtOnceFlow", METHODS, {"topic": "AI"}),
    "desk": ("press_results:DeskFlow", METHODS, {"topic": "AI"}),
    "by hand": ("press_tools:HandFlow", METHODS, {}),
    "desk crew": ("desk/crew.jsonc", TASKS, {"audience": "children", "since": "1999"}),
    "line": ("line/src/line/flow.yaml", METHODS, {"topic": "bees"}),
    "loop": ("press_loop:LoopFlow", METHODS, {"topic": "AI"}),
}


def make(entry_point: str) -> tuple[Any, dict[str, Any]]:
    """What runs, and the inputs that its file has."""
    module, _, name = entry_point.partition(":")
    if name:
        return getattr(importlib.import_module(module), name)(), {}
    path = Path(__file__).parent.parent / entry_point
    folder = path.parents[len(Path(entry_point).parts) - 2]
    sys.path[:0] = [str(folder), str(folder / "src")]
    if path.suffix == ".jsonc":
        from crewai.project import load_crew

        return load_crew(path)
    from crewai.flow.flow import Flow

    return Flow.from_declaration(path=path), {}


def main(kind: str, provider: str, location: str) -> None:
    entry_point, events, given = KINDS[kind]
    made, defaults = make(entry_point)
    made.checkpoint = CheckpointConfig(
        location=location,
        on_events=events,
        provider=SqliteProvider() if provider == "sqlite" else JsonProvider(),
    )
    # Whatever asks a person is answered as by one who only presses Enter.
    builtins.input = lambda *_: ""
    if isinstance(given, str):
        made.kickoff(given)
    else:
        made.kickoff(inputs=None if given is None else {**defaults, **given})
    crewai_event_bus.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
