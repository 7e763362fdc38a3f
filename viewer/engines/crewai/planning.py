"""The plan of a fork or resume, exactly as CrewAI runs it: its units of work, their steps and cost."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from viewer.engines.contents import Agent, GraphEdge, UnitGraph
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.flow_plan import FlowMethod, Following, RouterDecision, flow_methods, following
from viewer.engines.crewai.input_names import (
    ConditionalTasks,
    conditional_tasks,
    has_placeholder,
    placeholder_names,
)
from viewer.engines.crewai.recorded_events import Event
from viewer.engines.crewai.structs import STATE
from viewer.engines.plan import Action, Decision, EditRefused, Edits, Outlook, Reason, Route, Step, Unit
from viewer.messages.message import UserMessage
from viewer.redaction import MARKER
from viewer.stores.model_calls import ModelCall
from viewer.validation import shortened

# The prompt of an agent that runs without a crew.


def agent_prompt(contents: Contents) -> Any:
    """The agent's last prompt: a text, or a list of messages. None if the checkpoint does not record it."""
    prompts = [event.messages for event in contents.events if event.kind == "lite_agent_execution_started"]
    if not prompts or not prompts[-1]:
        return None
    messages = prompts[-1]
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return [{"role": message.role, "content": message.content} for message in messages]


# Finds the inputs that are part of the prompt of a task.


# A shorter value, such as 1, is part of many texts by chance.
MIN_CHARACTERS = 2


def inputs_used(contents: Contents, task: Task) -> frozenset[str]:
    """The names of the inputs in the texts of the task and of its agent.

    They are found by placeholder in the task's texts. A checkpoint does not store the templates of an agent,
    so the agent's texts are searched for the values of the inputs as whole words.
    """
    named = placeholder_names(f"{task.template}\n{task.expected_template}")
    agents = [agent for agent in contents.agents if agent.role == task.agent]
    named_by_value = [
        name for name in contents.inputs if any(_mentions(agent, name, contents) for agent in agents)
    ]
    return frozenset([*named, *named_by_value])


def roles_mentioning(contents: Contents, names: Collection[str]) -> list[str]:
    """The roles of the agents whose texts contain the stored values of these inputs."""
    return [
        agent.role for agent in contents.agents if any(_mentions(agent, name, contents) for name in names)
    ]


def _mentions(agent: Agent, name: str, contents: Contents) -> bool:
    texts = f"{agent.role}\n{agent.goal}\n{agent.backstory}"
    return name in contents.inputs and _contains(contents.inputs[name], texts)


def _contains(value: Any, texts: str) -> bool:
    """Whether the texts contain the value as the engine formats it."""
    formatted = value.strip() if isinstance(value, str) else str(value)
    if isinstance(value, bool) or value is None or len(formatted) < MIN_CHARACTERS:
        return False
    if MARKER in json.dumps(value, ensure_ascii=False):
        return False
    return re.search(rf"(?<!\w){re.escape(formatted)}(?!\w)", texts) is not None


# The steps of a fork or resume, exactly as CrewAI runs them. Nothing is read or written.


def plan_of(
    entity: str, units: Sequence[Unit], edits: Edits, following: Following | None = None
) -> list[Step]:
    """The steps of a checkpoint, by the kind of its root: a crew, a flow, its state or an agent.

    Raises EditRefused.
    ``following`` is what follows in a flow according to the project's source.
    """
    if entity == "flow":
        return plan_flow(units, edits, following)
    if entity == STATE:
        return plan_state(units, edits, following)
    plans = {"crew": plan_crew, "agent": plan_agent}
    if entity not in plans:
        raise EditRefused("edit.nothing_to_run")
    return plans[entity](units, edits)


def plan_crew(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The steps of a crew, in order. Raises EditRefused for an edit that cannot take effect.

    The engine runs every task from the first one without an output. So if a task runs again or its output
    was edited, all finished tasks behind it run again, except for tasks that a person edits or keeps: these
    are held, and not called.

        task     1 done    2 done    3 done    4 open
        edit 2   KEPT      EDITED    AGAIN     RUNS
        again 1  AGAIN     AGAIN     AGAIN     RUNS
        both     AGAIN     PINNED    AGAIN     RUNS

    A task without an output before tasks that have one was skipped because its condition did not hold, or
    was still running in parallel. It makes no other task run again. Async tasks between two others run at the
    same time, so an edit of one of them is read by the tasks behind, but not by the others.
    """
    _refuse_what_cannot_hold(units, edits)
    if edits.state is not None:
        raise EditRefused("edit.crew_has_no_state")
    steps: list[Step] = []
    behind: Reason | None = None
    # The same for the tasks behind the async tasks that run at the same time.
    beside: Reason | None = None
    furthest = max((position for position, unit in enumerate(units, 1) if unit.done), default=0)
    for position, unit in enumerate(units, 1):
        # The engine waits for async tasks before it evaluates a condition.
        if beside and (not unit.runs_beside or unit.is_conditional):
            behind, beside = _stronger(behind, beside), None
        action, reason = _of_task(unit, edits, behind)
        if action in (Action.RUNS, Action.MAY) and position < furthest:
            why = Reason.CONDITION if action is Action.MAY else Reason.PASSED_OVER
            steps.append(Step(unit.id, position, unit.title, unit.agent, action, why))
            continue
        is_kept_as_made = action is Action.KEPT or reason is Reason.HELD
        stale = _stale_inputs(unit, edits) if is_kept_as_made else ()
        steps.append(Step(unit.id, position, unit.title, unit.agent, action, reason, stale))
        effect = None
        if action in (Action.RUNS, Action.AGAIN, Action.MAY):
            effect = Reason.BEHIND_RERUN
        elif action is Action.EDITED:
            effect = Reason.READS_EDITED
        if unit.runs_beside:
            beside = _stronger(beside, effect)
        else:
            behind = _stronger(behind, effect)
    return steps


def _stronger(one: Reason | None, other: Reason | None) -> Reason | None:
    return one if one is Reason.BEHIND_RERUN or other is None else other


def plan_flow(units: Sequence[Unit], edits: Edits, following: Following | None = None) -> list[Step]:
    """The steps of a flow: its methods. Raises EditRefused.

    Only the state of a flow can be edited: what a method returned has been passed on already.
    Without ``following``, methods that have not run are known only if they are recorded.
    """
    _refuse_edits_of_methods(units, edits)
    if following is None:
        return [
            Step(unit.id, position, unit.title, unit.agent, *_without_edits(unit))
            for position, unit in enumerate(units, 1)
        ]
    recorded = {unit.id: unit for unit in units if unit.done or unit.count}
    names = dict.fromkeys([*recorded, *following.certain, *following.possible])
    return [
        Step(name, position, name, "", *_of_method(name, name in recorded, following))
        for position, name in enumerate(names, 1)
    ]


def _of_method(name: str, has_run: bool, following: Following) -> tuple[Action, Reason]:
    if name in following.certain:
        return (Action.AGAIN, Reason.TRIGGERED) if has_run else (Action.RUNS, Reason.UNFINISHED)
    if name in following.possible:
        return (Action.KEPT, Reason.MAY_REPEAT) if has_run else (Action.MAY, Reason.ROUTED)
    return Action.KEPT, Reason.FINISHED


def plan_state(units: Sequence[Unit], edits: Edits, following: Following | None = None) -> list[Step]:
    """The steps of a fork of a flow's state: the flow starts over with it. Raises EditRefused.

    Without ``following``, only the recorded methods are known.
    """
    _refuse_edits_of_methods(units, edits)
    recorded = [unit.id for unit in units]
    certain = recorded if following is None else following.certain
    names = dict.fromkeys([*certain, *(following.possible if following else ())])
    steps = []
    for position, name in enumerate(names, 1):
        action, reason = Action.MAY, Reason.ROUTED
        if name in certain:
            action = Action.AGAIN if name in recorded else Action.RUNS
            reason = Reason.STARTS_OVER
        steps.append(Step(name, position, name, "", action, reason))
    return steps


def _refuse_edits_of_methods(units: Sequence[Unit], edits: Edits) -> None:
    _refuse_unknown(units, edits)
    if edits.outputs:
        raise EditRefused("edit.flow_outputs_not_editable")
    if edits.inputs:
        raise EditRefused("edit.flow_inputs_are_state")
    if edits.again:
        raise EditRefused("edit.flow_method_cannot_rerun")


def plan_agent(units: Sequence[Unit], edits: Edits) -> list[Step]:
    """The only step of a lone agent. Raises EditRefused.

    A finished agent runs again if its inputs changed, or on request.
    """
    _refuse_unknown(units, edits)
    if edits.outputs:
        raise EditRefused("edit.agent_output_is_result")
    if edits.state is not None:
        raise EditRefused("edit.agent_has_no_state")
    steps = []
    for position, unit in enumerate(units, 1):
        action, reason = _without_edits(unit)
        if unit.done and edits.inputs:
            action, reason = Action.AGAIN, Reason.STALE_INPUT
        elif unit.done and unit.id in edits.again:
            action, reason = Action.AGAIN, Reason.REQUESTED
        steps.append(Step(unit.id, position, unit.title, unit.agent, action, reason))
    return steps


def _without_edits(unit: Unit) -> tuple[Action, Reason]:
    return (Action.KEPT, Reason.FINISHED) if unit.done else (Action.RUNS, Reason.UNFINISHED)


def _of_task(unit: Unit, edits: Edits, behind: Reason | None) -> tuple[Action, Reason]:
    """Return the step of one task. ``behind`` is the reason if an earlier task makes it run again."""
    if not unit.done:
        return (Action.MAY, Reason.CONDITION) if unit.is_conditional else (Action.RUNS, Reason.UNFINISHED)
    if unit.id in edits.outputs:
        # The task is held only if the engine would run it, which is after a step that runs.
        return (Action.PINNED if behind is Reason.BEHIND_RERUN else Action.EDITED), Reason.EDITED
    if unit.id in edits.again:
        return Action.AGAIN, Reason.STALE_INPUT if _stale_inputs(unit, edits) else Reason.REQUESTED
    if behind is None:
        return Action.KEPT, Reason.FINISHED
    if unit.id in edits.keep:
        return Action.PINNED, Reason.HELD
    return Action.AGAIN, Reason.CONDITION if unit.is_conditional else behind


def _stale_inputs(unit: Unit, edits: Edits) -> tuple[str, ...]:
    """The changed inputs that this unit's prompt uses."""
    return tuple(name for name in edits.inputs if has_placeholder(unit.template, name) or name in unit.uses)


def _refuse_unknown(units: Sequence[Unit], edits: Edits) -> None:
    known = {unit.id for unit in units}
    unknown = [name for name in (*edits.outputs, *edits.again, *edits.keep) if name not in known]
    if unknown:
        raise EditRefused("edit.unknown_task", name=shortened(unknown[0]))


def _refuse_what_cannot_hold(units: Sequence[Unit], edits: Edits) -> None:
    _refuse_unknown(units, edits)
    for position, unit in enumerate(units, 1):
        if unit.id in edits.outputs and not unit.done:
            raise EditRefused(
                "edit.output_of_unfinished_task",
                position=position,
            )
        if unit.id in edits.outputs and unit.id in edits.again:
            raise EditRefused(
                "edit.rerun_and_edited",
                position=position,
            )
        if unit.id in edits.keep and unit.id in edits.again:
            raise EditRefused("edit.rerun_and_held", position=position)
        if unit.id in edits.keep and not unit.done:
            raise EditRefused("edit.hold_of_unfinished_task", position=position)


# The units of work, their plan and cost: the tasks of a crew, methods of a flow, or run of a lone agent.


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
    if contents.kind in ("flow", STATE):
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
    return flow_methods(folder, entry_point) if kind in ("flow", STATE) else None


def following_of(contents: Contents, methods: Any, answer: str = "") -> Following | None:
    """What follows in a flow with these methods; None for other kinds, and if ``methods`` are not known.

    ``answer`` is the feedback that its state waits for, as far as it is known.
    """
    if contents.kind not in ("flow", STATE) or not isinstance(methods, tuple) or not methods:
        return None
    if asked := contents.feedback:
        # CrewAI continues with what listens to the method, whatever has run before.
        ahead = [replace(one, starts=one.name == asked.method, starts_on=None) for one in methods]
        outcomes = [one for one in asked.outcomes if one.lower() == first_line(answer).lower()]
        return following(ahead, {asked.method: 1}, {asked.method: outcomes} if outcomes else {})
    if contents.kind == STATE:
        return following(methods, {}, {})
    results: dict[str, list[str]] = {}
    for event in contents.events:
        if event.kind == "method_execution_finished" and event.flow in ("", contents.name):
            results.setdefault(event.subject, []).append(event.text[:MAX_LABEL])
    counts = {method.name: max(method.count, int(method.done)) for method in contents.methods}
    return following(methods, counts, results)


def first_line(answer: str) -> str:
    """The line of an answer that may name its outcome, as the runner reads it."""
    return answer.strip().partition("\n")[0].strip()


def plan(contents: Contents, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
    """The steps of a fork or resume; ``source`` is from ``read_source``. Raises EditRefused."""
    asked = contents.feedback
    # What a flow asks has no id.
    unasked = edits.answers.keys() - ({""} if asked else set())
    if edits.as_node or edits.replace or unasked:
        raise EditRefused("edit.only_of_graphs")
    if contents.kind == STATE and not is_fork and asked is None:
        raise EditRefused("edit.state_not_resumed")
    answer = edits.answers.get("")
    ahead = following_of(contents, source, answer if isinstance(answer, str) else "")
    # A state that waits continues after the method that asks.
    kind = "flow" if asked else contents.kind
    return plan_of(kind, units_of(contents, source), edits, ahead)


def outlook(contents: Contents, source: Any = None) -> Outlook:
    """The decisions of a flow's routers, and notes on its source."""
    if contents.kind not in ("flow", STATE):
        return Outlook()
    ahead = following_of(contents, source)
    starts_over = contents.kind == STATE and contents.feedback is None
    notes = [UserMessage("edit.state_starts_over")] if starts_over else []
    if ahead is None:
        return Outlook(notes=(*notes, UserMessage("edit.next_methods_unknown")))
    if not ahead.fits:
        notes.append(UserMessage("edit.flow_source_changed"))
    if not (ahead.certain or ahead.possible or ahead.decisions):
        notes.append(UserMessage("edit.flow_finished"))
    return Outlook(tuple(map(_decision, ahead.decisions)), tuple(notes))


def has_finished(contents: Contents, source: Any) -> bool:
    """Whether the methods of a flow that have run lead to no other, according to its source."""
    ahead = following_of(contents, source) if contents.kind == "flow" else None
    if ahead is None or not ahead.fits or not any(method.done for method in contents.methods):
        return False
    return not (ahead.certain or ahead.possible or ahead.decisions)


def _decision(decision: RouterDecision) -> Decision:
    routes = tuple(Route(route.label, route.methods) for route in decision.routes)
    return Decision(decision.router, routes, decision.is_open)


def previous_calls(contents: Contents, latest: Contents | None, steps: Sequence[Step]) -> list[ModelCall]:
    """The model calls of these steps in ``latest``.

    For a flow, these are the calls of everything that ran after ``contents``.
    """
    if contents.kind == "flow":
        known = {event.id for event in contents.events}
        later = [event for event in latest.events if event.id not in known] if latest else []
        return calls_of(later, {""}, contents.kind)
    running = {step.unit for step in steps if step.action in RUNNING}
    return calls_of((latest or contents).events, running, contents.kind)


def calls_of(events: Sequence[Event], units: set[str], kind: str) -> list[ModelCall]:
    """The model calls of the last attempts of these tasks; for other kinds, of all events."""
    calls: dict[str, list[ModelCall]] = {}
    for event in events:
        unit = event.task_id if kind == "crew" else ""
        if event.kind == "task_started":
            calls[unit] = []
        elif event.kind == "llm_call_completed":
            calls.setdefault(unit, []).append(event.call)
    if kind != "crew":
        return calls.get("", []) if units else []
    return [call for unit in units for call in calls.get(unit, [])]


# The graph of a crew's tasks or of a flow's methods, from a checkpoint and the project's source.


START = "__start__"
CONDITION = "condition"


def unit_graph(contents: Contents, source: Any = None) -> UnitGraph | None:
    """The units with their statuses, and which follows which; None for a lone agent.

    ``source`` is from ``read_source``. Without it, the methods of a flow are those that have begun.
    """
    if contents.kind == "crew" and contents.tasks:
        return _of_crew(contents, source if isinstance(source, ConditionalTasks) else None)
    if contents.kind == "flow":
        methods = source if isinstance(source, tuple) else ()
        return _of_flow(contents, methods) if methods else _of_events(contents)
    return None


def _of_crew(contents: Contents, source: ConditionalTasks | None) -> UnitGraph:
    """Tasks in their order. Async tasks between two others run at the same time."""
    names = {task.position: f"{task.position}. {task.title}" for task in contents.tasks}
    statuses, is_next = {}, True
    for task in contents.tasks:
        status = "done" if task.done else "skipped" if task.is_skipped else "next" if is_next else ""
        # The async tasks behind an unfinished one run with it.
        is_next &= task.done or task.is_skipped or task.is_async
        statuses[names[task.position]] = status
    edges = []
    for before, after in pairwise([[], *_at_once(contents.tasks)]):
        for task in after:
            has_condition = task.is_skipped or bool(source and source.has(task.name, task.template))
            for first in [names[one.position] for one in before] or [START]:
                label = CONDITION if has_condition else ""
                edges.append(GraphEdge(first, names[task.position], has_condition, label))
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=source is None)


def _at_once(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """The tasks that run at the same time, in order."""
    group: list[Task] = []
    for task in tasks:
        if group and not (task.is_async and group[-1].is_async):
            yield group
            group = []
        group.append(task)
    if group:
        yield group


def _of_flow(contents: Contents, methods: Sequence[FlowMethod]) -> UnitGraph:
    """Methods as the source declares them."""
    finished = {method.name for method in contents.methods if method.done}
    unfinished = {one.name for one in methods} - finished
    ahead = following_of(contents, methods)
    certain = ahead.certain if ahead and ahead.fits else ()
    statuses = {
        one.name: "next"
        if one.name in certain and _is_reached(one, finished, unfinished)
        else "done"
        if one.name in finished
        else ""
        for one in methods
    }
    statuses |= {name: "done" for name in finished if name not in statuses}
    edges = dict.fromkeys(edge for one in methods for edge in _edges_to(one, methods))
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=False)


def _is_reached(method: FlowMethod, finished: set[str], unfinished: set[str]) -> bool:
    """Whether a method that follows is triggered by a finished one, or by the route of a finished router."""
    condition = method.listens_to or method.starts_on
    if condition is None or condition.is_met(finished):
        return True
    return not any(name in unfinished for name in condition.mentioned())


def _edges_to(method: FlowMethod, methods: Sequence[FlowMethod]) -> Iterator[GraphEdge]:
    names = {one.name for one in methods}
    if method.starts and method.starts_on is None:
        yield GraphEdge(START, method.name)
    for condition in (method.starts_on, method.listens_to):
        for label in condition.mentioned() if condition else ():
            if label in names:
                yield GraphEdge(label, method.name)
                continue
            routers = [one for one in methods if one.is_router and label in one.labels]
            for router in routers or [one for one in methods if one.is_open]:
                yield GraphEdge(router.name, method.name, True, label)


def _of_events(contents: Contents) -> UnitGraph | None:
    """Methods that have begun, each after the one that had finished last."""
    statuses, edges, last = dict[str, str](), dict[GraphEdge, None](), START
    for event in contents.events:
        if event.is_internal or event.flow not in ("", contents.name):
            continue
        if event.kind == "method_execution_started":
            statuses.setdefault(event.subject, "next")
            edges[GraphEdge(last, event.subject, is_inferred=True)] = None
        elif event.kind == "method_execution_finished":
            last = event.subject
            statuses[last] = "done"
    statuses |= {method.name: "done" for method in contents.methods if method.done}
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=True) if statuses else None
