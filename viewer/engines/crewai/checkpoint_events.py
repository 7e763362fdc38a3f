"""The events at which an installed CrewAI can write a checkpoint, found by reading its source."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from viewer.engines.entry_points import EventGroup, GroupTraits
from viewer.messages.marking import gettext_noop as _

MAX_BYTES = 512 * 1024
CONFIG = Path("state/checkpoint_config.py")
TYPES = Path("events/types")
# The name of the engine's list of these events.
LIST = "CheckpointEventType"


# The events of every version with checkpoints, used if the source cannot be read.
USUAL = (
    EventGroup("task", ("task_started", "task_completed", "task_failed")),
    EventGroup("crew", ("crew_kickoff_started", "crew_kickoff_completed", "crew_kickoff_failed")),
    EventGroup(
        "agent",
        (
            "agent_execution_started",
            "agent_execution_completed",
            "agent_execution_error",
            "lite_agent_execution_started",
            "lite_agent_execution_completed",
            "lite_agent_execution_error",
        ),
    ),
    EventGroup(
        "flow",
        (
            "flow_started",
            "flow_finished",
            "method_execution_started",
            "method_execution_finished",
            "method_execution_failed",
        ),
    ),
)


_SILENT = _(
    "CrewAI 1.14 and 1.15 define these events, but write no checkpoints at them: only at events of the crew, "
    "a task, an agent or the flow itself."
)
# Frequent events occur with each task, call or piece of text.
GROUPS = {
    "task": GroupTraits(_("Tasks")),
    "crew": GroupTraits(_("Crew")),
    "agent": GroupTraits(_("Agents"), is_frequent=True),
    "flow": GroupTraits(_("Flow and its methods")),
    "llm": GroupTraits(_("Models"), is_frequent=True, hint=_SILENT),
    "llm_guardrail": GroupTraits(_("Guardrails")),
    "tool_usage": GroupTraits(_("Tools"), is_frequent=True, hint=_SILENT),
    "memory": GroupTraits(_("Memory"), is_frequent=True),
    "knowledge": GroupTraits(_("Knowledge"), is_frequent=True),
    "reasoning": GroupTraits(_("Planning of agents")),
    "mcp": GroupTraits(_("Tools over MCP"), is_frequent=True, hint=_SILENT),
    "observation": GroupTraits(_("Steps of agents"), is_frequent=True),
    "skill": GroupTraits(_("Skills")),
    "logging": GroupTraits(_("Agent logs"), is_frequent=True),
    "a2a": GroupTraits(_("Remote agents (A2A)"), is_frequent=True),
    "system": GroupTraits(_("Signals to the program")),
    "env": GroupTraits(_("Environment"), hint=_SILENT),
}


def checkpoint_events(interpreter: Path | None) -> tuple[EventGroup, ...]:
    """Return the events of the CrewAI in this environment, in groups; ``USUAL`` if they cannot be read."""
    for engine in _engine_folders(interpreter) if interpreter else ():
        try:
            changed = (engine / CONFIG).stat().st_mtime_ns
        except OSError:
            continue
        return _read(engine, changed) or USUAL
    return USUAL


def _engine_folders(interpreter: Path) -> Iterator[Path]:
    # A link is not resolved, since the interpreter that it points to is outside the environment.
    environment = interpreter.parent.parent
    yield from environment.glob("lib/python3*/site-packages/crewai")
    yield environment / "Lib" / "site-packages" / "crewai"


@lru_cache(maxsize=16)
def _read(engine: Path, changed: int) -> tuple[EventGroup, ...]:
    """Return the groups of an installed engine. ``changed`` is its modification time, a key of the cache."""
    names = _listed(_tree(engine / CONFIG))
    groups_by_event = _groups_by_event(engine)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(groups_by_event.get(name) or _group_by_name(name, groups_by_event), []).append(name)
    return tuple(EventGroup(name, tuple(events)) for name, events in groups.items())


def _listed(tree: ast.Module) -> list[str]:
    """The texts of the assignment to ``LIST``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == LIST for one in node.targets):
            return list(dict.fromkeys(_texts(node.value)))
    return []


def _groups_by_event(engine: Path) -> dict[str, str]:
    """Return the group of each event, which is named after the module of the event's class."""
    found: dict[str, str] = {}
    for path in sorted((engine / TYPES).glob("*_events.py")):
        group = path.stem.removesuffix("_events")
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "type":
                found.update((name, group) for name in _texts(node.annotation))
    return found


def _group_by_name(name: str, groups_by_event: dict[str, str]) -> str:
    """Return the group of an event without a class: the longest group that begins its name, or ``other``."""
    named = [group for group in set(groups_by_event.values()) if name.startswith(f"{group}_")]
    return max(named, key=len, default="other")


def _texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes()[:MAX_BYTES])
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
