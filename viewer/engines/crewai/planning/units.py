"""The units of work, their plan and cost: the tasks of a crew, methods of a flow, or run of a lone agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.contents.events import Event
from viewer.engines.crewai.planning.flow_plan import FlowMethod, Following, RouterDecision, following
from viewer.engines.crewai.planning.plan import plan_of
from viewer.engines.crewai.planning.stale_inputs import inputs_used
from viewer.engines.crewai.project_source.conditional_tasks import ConditionalTasks, conditional_tasks
from viewer.engines.crewai.project_source.flow_methods import flow_methods
from viewer.engines.planning.outlook import Decision, Outlook, Route
from viewer.engines.planning.plan import Action, EditRefused, Edits, Step, Unit
from viewer.messages.message import UserMessage

# The most characters of the label that a router returns.
MAX_LABEL = 200
RUNNING = (Action.AGAIN, Action.RUNS)


def units_of(contents: Contents, source: Any = None) -> list[Unit]:
    """The units of work of a checkpoint, in the engine's order; ``source`` is from ``read_source``."""
    if contents.kind == "crew":
        conditional = source if isinstance(source, ConditionalTasks) else ConditionalTasks()
        return [
            Unit(
                task.id,
                task.title,
                task.agent,
                task.done,
                task.template,
                inputs_used(contents, task),
                runs_beside=task.is_async,
                is_conditional=task.is_skipped or conditional.has(task.name, task.template),
            )
            for task in contents.tasks
        ]
    if contents.kind == "flow":
        return [
            Unit(method.name, method.name, done=method.done, count=method.count)
            for method in contents.methods
        ]
    if contents.kind == "agent":
        done = any(event.kind == "lite_agent_execution_completed" for event in contents.events)
        return [Unit(contents.id or "agent", contents.name, contents.name, done)]
    return []


def read_source(
    folder: Path, entry_point: str, kind: str
) -> tuple[FlowMethod, ...] | ConditionalTasks | None:
    """What the source of an entry point shows: a flow's methods, or a crew's tasks with a condition.

    None for other kinds.
    """
    if kind == "crew":
        return conditional_tasks(folder, entry_point) if entry_point else None
    return flow_methods(folder, entry_point) if kind == "flow" else None


def following_of(contents: Contents, methods: Any) -> Following | None:
    """What follows in a flow with these methods; None for other kinds, and if ``methods`` are not known."""
    if contents.kind != "flow" or not isinstance(methods, tuple) or not methods:
        return None
    results: dict[str, list[str]] = {}
    for event in contents.events:
        if event.kind == "method_execution_finished" and event.flow in ("", contents.name):
            results.setdefault(event.subject, []).append(event.text[:MAX_LABEL])
    counts = {method.name: max(method.count, int(method.done)) for method in contents.methods}
    return following(methods, counts, results)


def plan(contents: Contents, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
    """The steps of a fork or resume; ``source`` is from ``read_source``. Raises EditRefused."""
    if edits.as_node or edits.replace or edits.answers:
        raise EditRefused("edit.only_of_graphs")
    return plan_of(contents.kind, units_of(contents, source), edits, following_of(contents, source))


def outlook(contents: Contents, source: Any = None) -> Outlook:
    """The decisions of a flow's routers, and notes on its source."""
    if contents.kind != "flow":
        return Outlook()
    ahead = following_of(contents, source)
    if ahead is None:
        return Outlook(notes=(UserMessage("edit.next_methods_unknown"),))
    notes = []
    if not ahead.fits:
        notes.append(UserMessage("edit.flow_source_changed"))
    if not (ahead.certain or ahead.possible or ahead.decisions):
        notes.append(UserMessage("edit.flow_finished"))
    return Outlook(tuple(map(_decision, ahead.decisions)), tuple(notes))


def has_finished(contents: Contents, source: Any) -> bool:
    """Whether the methods of a flow that have run lead to no other, according to its source."""
    ahead = following_of(contents, source)
    if ahead is None or not ahead.fits or not any(method.done for method in contents.methods):
        return False
    return not (ahead.certain or ahead.possible or ahead.decisions)


def _decision(decision: RouterDecision) -> Decision:
    routes = tuple(Route(route.label, route.methods) for route in decision.routes)
    return Decision(decision.router, routes, decision.is_open)


def cost(contents: Contents, latest: Contents | None, steps: Sequence[Step]) -> tuple[int, int]:
    """The numbers of model calls and tokens of these steps in ``latest``.

    For a flow, these are the calls and tokens of everything that ran after ``contents``.
    """
    if contents.kind == "flow":
        known = {event.id for event in contents.events}
        later = [event for event in latest.events if event.id not in known] if latest else []
        return cost_of(later, {""}, contents.kind)
    running = {step.unit for step in steps if step.action in RUNNING}
    return cost_of((latest or contents).events, running, contents.kind)


def cost_of(events: Sequence[Event], units: set[str], kind: str) -> tuple[int, int]:
    """The numbers of calls and tokens of the last attempts of these tasks; for other kinds, of all events."""
    calls: dict[str, list[int]] = {}
    for event in events:
        unit = event.task_id if kind == "crew" else ""
        if event.kind == "task_started":
            calls[unit] = []
        elif event.kind == "llm_call_completed":
            calls.setdefault(unit, []).append(event.tokens)
    if kind != "crew":
        counted = calls.get("", []) if units else []
    else:
        counted = [tokens for unit in units for tokens in calls.get(unit, [])]
    return len(counted), sum(counted)
