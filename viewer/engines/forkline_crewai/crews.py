"""Runs a crew on from a checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import crewai.crew
from crewai import Crew
from crewai.tasks.task_output import TaskOutput
from pydantic import ValidationError

from forkline_crewai import context_links, project, restoring
from forkline_crewai.interpolation import interpolate_agent, interpolate_task, placeholders
from forkline_crewai.refusal import Refused

if TYPE_CHECKING:
    from forkline_crewai.reporting import Reporter
    from viewer.jobs.spool import Request

CALLED = {"again", "runs"}


def prepare(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """The crew, on its branch and ready to be kicked off. ``saved`` is its edited data. Raises Refused.

    With an entry point it is the project's own crew, which takes over the saved ids and outputs: so
    its tools, guardrails, callbacks and links between tasks are real. Without one it is restored.
    """
    events = restoring.events_in(body)
    live = bool(request["entry_point"])
    crew = _own_crew(saved, request) if live else state.root[0]
    crew.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), crew.checkpoint)
    for agent in crew.agents:
        agent.checkpoint = None  # the crew's settings hold for all
    # Without it the engine would begin anew.
    crew.checkpoint_kickoff_event_id = saved.get("checkpoint_kickoff_event_id") or str(uuid.uuid4())
    crew.checkpoint_inputs = _inputs(saved, events) or None
    crew.stream = False
    _ask_nobody(crew, reporter)
    if any(task.output for task in crew.tasks):
        crew.planning = False  # the tasks' texts hold the plan already
    restoring.attach(state, crew)
    crew._restore_runtime()
    if not live:
        _relink(crew, saved, events, request, reporter)
        _warn_of_gaps(request, reporter)
    _interpolate(crew, saved, request, live, reporter)
    _make_outputs_agree(crew, request)
    edited = bool(request["inputs"] or request["outputs"])
    restoring.leave(state, request, edited or any(step["action"] == "again" for step in request["steps"]))
    hold({step["task"] for step in request["steps"] if step["action"] in {"edited", "pinned"}})
    return crew


def run(crew: Any) -> str:
    """Kick it off, and its final output."""
    return str(crew.kickoff().raw)


def hold(tasks: set[str]) -> None:
    """Have the engine pass over these tasks wherever they stand, with the outputs that they have.

    By itself it runs everything from the first task without an output on.
    """
    prepare_task = crewai.crew.prepare_task_execution

    def passing_over(crew: Any, task: Any, index: int, start: int | None, *rest: Any) -> Any:
        if str(task.id) in tasks and task.output is not None:
            start = index + 1
        return prepare_task(crew, task, index, start, *rest)

    crewai.crew.prepare_task_execution = passing_over


def _own_crew(saved: Mapping[str, Any], request: Request) -> Any:
    crew = project.made_by(request["entry_point"], Crew, "crew")
    tasks = list(saved.get("tasks") or [])
    own = [task.description for task in crew.tasks]
    texts = [str(task.get("checkpoint_original_description") or task.get("description")) for task in tasks]
    # YAML leaves line ends behind, which a crew keeps and a person does not see.
    if [text.strip() for text in own] != [text.strip() for text in texts]:
        different = next(
            (text for text, other in zip(texts, own, strict=False) if text.strip() != other.strip()), ""
        )
        raise Refused(
            f"The crew of {request['entry_point']} has other tasks than the checkpoint, so it cannot go on "
            f"from it: {len(own)} against {len(texts)}. Missing: {different.strip()[:80]!r}."
        )
    object.__setattr__(crew, "id", uuid.UUID(str(saved["id"])))
    for task, data in zip(crew.tasks, tasks, strict=True):
        _take_over(task, data)
    for agent in crew.agents:
        agent.agent_executor = None
    return crew


def _take_over(task: Any, saved: Mapping[str, Any]) -> None:
    object.__setattr__(task, "id", uuid.UUID(str(saved["id"])))
    task.checkpoint_original_description = task.description
    task.checkpoint_original_expected_output = task.expected_output
    if saved.get("output") is not None:
        task.output = TaskOutput.model_validate(saved["output"])
        task.description = str(saved.get("description"))
        task.expected_output = str(saved.get("expected_output"))


def _ask_nobody(crew: Any, reporter: Reporter) -> None:
    """Leave out what would wait at a terminal that a child does not have."""
    for position, task in enumerate(crew.tasks, 1):
        if task.human_input and task.output is None:
            task.human_input = False
            reporter.warn(f"Task {position} asks a person to look at its answer: here it goes on without.")


def _inputs(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """The inputs of the run so far, each of the type that it had."""
    if isinstance(saved.get("checkpoint_inputs"), dict):
        return dict(saved["checkpoint_inputs"])
    started = next((event for event in events if event.get("type") == "crew_kickoff_started"), {})
    return dict(started.get("inputs") or {})


def _interpolate(
    crew: Any, saved: Mapping[str, Any], request: Request, live: bool, reporter: Reporter
) -> None:
    """Put the inputs into the texts of what will run; what is kept keeps the text that it was made with."""
    before = dict(crew.checkpoint_inputs or {})
    inputs = {**before, **request["inputs"]}
    crew._inputs = crew.checkpoint_inputs = inputs or None
    called = {step["task"] for step in request["steps"] if step["action"] in CALLED}
    tasks = [task for task in crew.tasks if str(task.id) in called or task.output is None]
    unfilled = any(placeholders(task.description) & inputs.keys() for task in tasks)
    if not inputs or not (live or request["inputs"] or unfilled):
        return
    for task in tasks:
        interpolate_task(task, inputs)
    for agent in crew.agents if live else ():
        interpolate_agent(agent, inputs)
    if not live:
        _warn_of_old_roles(tasks, before, request, reporter)


def _warn_of_old_roles(
    tasks: list[Any], before: dict[str, Any], request: Request, reporter: Reporter
) -> None:
    for name in request["inputs"]:
        old = str(before.get(name, "")).strip()
        for role in {task.agent.role for task in tasks if task.agent and old}:
            agent = next(task.agent for task in tasks if task.agent and task.agent.role == role)
            if any(old in text for text in (agent.role, agent.goal, agent.backstory)):
                reporter.warn(
                    f"The agent {role.strip()!r} still speaks of the former {name}: the checkpoint keeps no "
                    f"template of it. Name the crew's entry point to have it said anew."
                )


def _relink(
    crew: Any, saved: Mapping[str, Any], events: list[dict[str, Any]], request: Request, reporter: Reporter
) -> None:
    """Give the tasks back what they read, where the record tells; say so where it does not."""
    found = context_links.links(saved.get("tasks") or [], events)
    by_id = {str(task.id): task for task in crew.tasks}
    for identifier, read in found.items():
        if read is not None:
            by_id[identifier].context = [by_id[other] for other in read]
    called = {step["task"] for step in request["steps"] if step["action"] in CALLED}
    unknown = [
        str(position)
        for position, task in enumerate(crew.tasks, 1)
        if position > 1 and str(task.id) in called and str(task.id) not in found
    ]
    if unknown:
        reporter.warn(
            f"The checkpoint does not say which outputs these tasks read: {', '.join(unknown)}. All before "
            f"them are given. Name the crew's entry point to keep the links between its tasks."
        )


def _warn_of_gaps(request: Request, reporter: Reporter) -> None:
    """Say which tasks the run had passed over: a checkpoint does not keep that a task has a condition."""
    actions = [step["action"] for step in request["steps"]]
    gaps = [
        str(position)
        for position, action in enumerate(actions, 1)
        if action == "runs" and set(actions[position:]) - {"runs"}
    ]
    if gaps:
        reporter.warn(
            f"Tasks that the run had passed over will run: {', '.join(gaps)}. If they have a condition, the "
            f"checkpoint does not keep it: name the crew's entry point, whose tasks have theirs."
        )


def _make_outputs_agree(crew: Any, request: Request) -> None:
    """Build the models of JSON outputs, which a checkpoint keeps only as text. Raises Refused for an edit."""
    for position, task in enumerate(crew.tasks, 1):
        if task.output is None or task.output_pydantic is None:
            continue
        try:
            task.output.pydantic = task.output_pydantic.model_validate_json(task.output.raw)
        except ValidationError as error:
            if str(task.id) in request["outputs"]:
                raise Refused(f"The new output of task {position} does not fit: {error}") from error
