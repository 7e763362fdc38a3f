"""The plan of a fork or resume, exactly as CrewAI runs it: its units, their steps and cost, and its edits."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from viewer.engines.answer_schema import MAX_OPTIONS
from viewer.engines.contents import Agent
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.flow_plan import FlowMethod, Following, flow_methods, following
from viewer.engines.crewai.input_names import (
    ConditionalTasks,
    conditional_tasks,
    has_placeholder,
    placeholder_names,
)
from viewer.engines.crewai.recorded_events import STATE, Event
from viewer.engines.plan import (
    MISSING,
    NO_SCHEMA,
    Action,
    AnswerOption,
    Editable,
    EditableOutput,
    EditRefused,
    Edits,
    OpenQuestion,
    Outlook,
    Reason,
    Schema,
    Step,
    StoredValue,
    Unit,
)
from viewer.messages.message import UserMessage
from viewer.redaction import MARKER
from viewer.stores.protocol import ModelCall
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


def _mentions(agent: Agent, name: str, contents: Contents) -> bool:
    """Whether the texts of an agent contain the stored value of an input as the engine formats it."""
    texts = f"{agent.role}\n{agent.goal}\n{agent.backstory}"
    value = contents.inputs.get(name)
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
            raise EditRefused("edit.output_of_unfinished_task", position=position)
        if unit.id in edits.outputs and unit.id in edits.again:
            raise EditRefused("edit.rerun_and_edited", position=position)
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
        # The runner reads the outcome from the first line as well.
        first_line = answer.strip().partition("\n")[0].strip()
        outcomes = [one for one in asked.outcomes if one.lower() == first_line.lower()]
        return following(ahead, {asked.method: 1}, {asked.method: outcomes} if outcomes else {})
    if contents.kind == STATE:
        return following(methods, {}, {})
    results: dict[str, list[str]] = {}
    for event in contents.events:
        if event.kind == "method_execution_finished" and event.flow in ("", contents.name):
            results.setdefault(event.subject, []).append(event.text[:MAX_LABEL])
    counts = {method.name: max(method.count, int(method.done)) for method in contents.methods}
    return following(methods, counts, results)


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
    return Outlook(ahead.decisions, tuple(notes))


def has_finished(contents: Contents, source: Any) -> bool:
    """Whether the methods of a flow that have run lead to no other, according to its source."""
    ahead = following_of(contents, source) if contents.kind == "flow" else None
    if ahead is None or not ahead.fits or not any(method.done for method in contents.methods):
        return False
    return not (ahead.certain or ahead.possible or ahead.decisions)


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


# The values of a checkpoint that a person may edit, and the values that a run reads.


# The only input of an agent that runs without a crew.
PROMPT = "messages"
READ = (Action.KEPT, Action.PINNED)
# The most characters that are shown of a question, and of what it is about.
MAX_PROMPT, MAX_OUTPUT = 2_000, 20_000


def schema(contents: Contents | None, report: Mapping[str, Any]) -> Schema:
    """Returns no schema: each value has the type that it has in the checkpoint."""
    return NO_SCHEMA


def editable(contents: Contents) -> Editable:
    """The inputs, a flow's state without its id, and the outputs of finished tasks."""
    state = contents.flow_state
    if state is not None:
        # The engine finds the flow by its id, so the id must not be edited.
        state = {name: value for name, value in state.items() if name != "id"}
    inputs = None if state is not None else _inputs(contents)
    outputs = tuple(
        EditableOutput(task.id, task.position, task.title, task.agent, task.output or "", task.output_json)
        for task in _finished(contents.tasks)
    )
    return Editable(inputs, state, outputs, questions=tuple(_questions(contents)))


def _questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The feedback that a flow's state waits for."""
    asked = contents.feedback
    if asked is None:
        return
    prompt = f"{asked.method}: {asked.message}".removeprefix(": ")
    options = tuple(AnswerOption(one, one) for one in dict.fromkeys(asked.outcomes[:MAX_OPTIONS]))
    output = asked.output if isinstance(asked.output, str | None) else json.dumps(asked.output, indent=2)
    yield OpenQuestion("", shortened(prompt, MAX_PROMPT), options, output=shortened(output or "", MAX_OUTPUT))


def _inputs(contents: Contents) -> dict[str, Any]:
    """The inputs of the run, and ``MISSING`` for placeholders of its tasks that are not among the inputs."""
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        return {PROMPT: MISSING if prompt is None else prompt}
    used = [name for task in contents.tasks for name in placeholder_names(task.template)]
    missing = dict.fromkeys((name for name in used if name not in contents.inputs), MISSING)
    return {**contents.inputs, **missing}


def missing_prompt(contents: Contents, edits: Edits) -> UserMessage | None:
    """Why a lone agent cannot run: neither the checkpoint nor the edits have a prompt. None if it can."""
    if contents.kind == "agent" and agent_prompt(contents) is None and not edits.inputs:
        return UserMessage("edit.prompt_unknown")
    return None


def _finished(tasks: Sequence[Task]) -> Iterator[Task]:
    """The finished tasks that have an id, each id once."""
    seen: set[str] = set()
    for task in tasks:
        if task.done and task.id and task.id not in seen:
            seen.add(task.id)
            yield task


def values_read(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
    """The values that a run reads from the checkpoint and that no edit replaces."""
    yield from _values(contents, edits)
    kept = {step.unit for step in steps if step.action in READ and step.unit not in edits.outputs}
    for task in contents.tasks:
        if task.id in kept:
            label = UserMessage("edit.stored_task_output", {"position": task.position})
            yield StoredValue(label, [task.output, task.output_json])
    for method in contents.methods:
        if method.done:
            yield StoredValue(UserMessage("edit.stored_method_result", {"name": method.name}), method.output)


def _values(contents: Contents, edits: Edits) -> Iterator[StoredValue]:
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        if prompt is not None and not edits.inputs:
            yield StoredValue(UserMessage("edit.stored_prompt"), prompt)
        return
    for name, value in contents.inputs.items() if contents.kind == "crew" else ():
        if name not in edits.inputs:
            yield StoredValue(UserMessage("edit.stored_input", {"name": name}), value)
    for name, value in (contents.flow_state or {}).items():
        if name not in (edits.state or {}):
            yield StoredValue(UserMessage("edit.stored_state", {"name": name}), value)


def missing_code(contents: Contents) -> UserMessage | None:
    """What a crew without the project's code would lack; None for a flow or an agent."""
    return UserMessage("edit.code_missing") if contents.kind == "crew" else None


def former_values(contents: Contents, edits: Edits) -> UserMessage | None:
    """Which agents would use an edited input's former value without the project's code; None if none."""
    if contents.kind != "crew":
        return None
    roles = [
        agent.role
        for agent in contents.agents
        if any(_mentions(agent, name, contents) for name in edits.inputs)
    ]
    if not roles:
        return None
    return UserMessage("edit.agents_have_former_value", {"roles": ", ".join(roles)})


def kickoff_inputs(contents: Contents, kind: str) -> Mapping[str, Any]:
    """The inputs that a run of this kind was started with, from its first checkpoint."""
    if kind != "agent":
        return contents.inputs
    prompt = agent_prompt(contents)
    return {} if prompt is None else {PROMPT: prompt}
