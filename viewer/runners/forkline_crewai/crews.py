"""Resumes, forks or checks a crew: the project's crew, with the ids, outputs and order of a checkpoint."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai import Crew, Task
from crewai.state.runtime import RuntimeState
from crewai.tasks.task_output import TaskOutput
from pydantic import ValidationError

from forkline_crewai import components, effects, entry_points, models, restoring
from forkline_crewai.components import GONE, CrewPart, Matching, MatchQuestion, placeholders
from forkline_crewai.effects import dicts_in
from forkline_crewai.patches.tasks import hold_tasks
from forkline_runner.reporting import Message, Refused, message, shortened

if TYPE_CHECKING:
    from forkline_runner.findings import Report
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# The project's crew. Its tasks and agents are matched to the saved ones if the match is certain, otherwise by
# a person's answers.


# The actions of steps that run, or that may.
CALLED = {"again", "runs", "may"}
# The text of a question, by its kind and its reason.
QUESTIONS: dict[tuple[str, str], str] = {
    ("agent", "changed"): "crewai.agent_role_unknown",
    ("agent", "twice"): "crewai.agent_role_ambiguous",
    ("task", "changed"): "crewai.task_text_unknown",
    ("task", "twice"): "crewai.task_text_ambiguous",
    ("task", "role"): "crewai.task_agent_differs",
    ("task", "order"): "crewai.task_order_differs",
}


def project_crew(saved: Mapping[str, Any], request: Request, reporter: Reporter) -> Any:
    """Return the entry point's crew with the saved ids and outputs.

    Raises Refused if a task or agent has no certain match and no answer, or if a loss is not accepted.
    """
    crew = new_crew(request)
    agents, tasks = matched(crew, saved, request)
    questions = [*agents.questions, *tasks.questions]
    found = [*components.of_project_crew(crew, saved, tasks), *models.missing_models(crew)]
    components.report_and_refuse(found, request, reporter, questions)
    if questions:
        raise Refused(
            "crewai.project_crew_differs",
            entry_point=request["entry_point"],
            questions=[sentence for question in questions for sentence in sentences_of(question)],
        )
    arrange(crew, saved, agents, tasks, request)
    return crew


def new_crew(request: Request) -> Any:
    """Return the entry point's crew as the project's code makes it. Raises Refused."""
    return entry_points.made_by(request["entry_point"], Crew, "crew")


def matched(crew: Any, saved: Mapping[str, Any], request: Request) -> tuple[Matching, Matching]:
    """Return the matchings of the crew's agents and of its tasks. Raises Refused for an invalid answer."""
    project_agents = _project_agents(crew)
    keys = {id(agent): unit.key for agent, unit in zip(crew.agents, project_agents, strict=True)}
    project_tasks = [
        CrewPart(str(number), str(task.id), task.description, keys.get(id(task.agent), ""))
        for number, task in enumerate(crew.tasks, 1)
    ]
    answers = request.get("options", {}).get("matches", {})
    agents = components.match_agents(_saved_agents(saved), project_agents, answers)
    return agents, components.match_tasks(_saved_tasks(saved), project_tasks, answers, agents)


def arrange(crew: Any, saved: Mapping[str, Any], agents: Matching, tasks: Matching, request: Request) -> None:
    """Give the crew the saved ids, outputs and order, and drop tasks that the checkpoint lacks.

    Raises Refused for a planned task that the project no longer has.
    """
    object.__setattr__(crew, "id", uuid.UUID(str(saved["id"])))
    keys = {unit.key: agent for unit, agent in zip(_project_agents(crew), crew.agents, strict=True)}
    for identifier, key in agents.pairs.items():
        if key != GONE:
            object.__setattr__(keys[key], "id", uuid.UUID(identifier))
    for agent in crew.agents:
        agent.agent_executor = None
    called = {step["task"] for step in request["steps"] if step["action"] in CALLED}
    ordered = []
    for position, data in enumerate(dicts_in(saved.get("tasks")), 1):
        key = tasks.pairs[str(data["id"])]
        if key != GONE:
            task = crew.tasks[int(key) - 1]
        elif str(data["id"]) in called:
            raise Refused("crewai.removed_task_cannot_rerun", position=position)
        else:
            task = _placeholder_task(crew, data, keys.get(agents.pairs.get(_agent_of(data), "")))
        _restore_task(task, data)
        ordered.append(task)
    crew.tasks = ordered


def _restore_task(task: Any, saved: Mapping[str, Any]) -> None:
    object.__setattr__(task, "id", uuid.UUID(str(saved["id"])))
    task.checkpoint_original_description = task.description
    task.checkpoint_original_expected_output = task.expected_output
    if saved.get("output") is not None:
        task.output = TaskOutput.model_validate(saved["output"])
        task.description = str(saved.get("description"))
        task.expected_output = str(saved.get("expected_output"))


def _placeholder_task(crew: Any, saved: Mapping[str, Any], agent: Any) -> Any:
    """Return a task that never runs, for a finished task that the project no longer has."""
    return Task(
        description=str(saved.get("checkpoint_original_description") or saved.get("description")),
        expected_output=str(saved.get("expected_output")),
        agent=None if crew.process == "hierarchical" else agent or crew.agents[0],
    )


def _project_agents(crew: Any) -> list[CrewPart]:
    roles = [str(agent.role).strip() for agent in crew.agents]
    return [
        CrewPart(_key(roles, number), str(agent.id), roles[number])
        for number, agent in enumerate(crew.agents)
    ]


def _key(roles: list[str], number: int) -> str:
    """Return an agent's role, with its number if several agents share it."""
    role = roles[number]
    return role if roles.count(role) == 1 else f"{role} ({number + 1})"


def _saved_agents(saved: Mapping[str, Any]) -> list[CrewPart]:
    return [
        CrewPart(str(agent.get("id")), str(agent.get("id")), str(agent.get("role") or ""))
        for agent in dicts_in(saved.get("agents"))
    ]


def _saved_tasks(saved: Mapping[str, Any]) -> list[CrewPart]:
    return [
        CrewPart(
            str(task.get("id")),
            str(task.get("id")),
            str(task.get("checkpoint_original_description") or task.get("description") or ""),
            _agent_of(task),
            is_template=bool(task.get("checkpoint_original_description")),
            is_finished=task.get("output") is not None,
        )
        for task in dicts_in(saved.get("tasks"))
    ]


def _agent_of(task: Mapping[str, Any]) -> str:
    agent = task.get("agent")
    return str((agent.get("id") if isinstance(agent, dict) else agent) or "")


def sentences_of(question: MatchQuestion) -> list[Message]:
    """Return the question and how to answer it, as sentences for the terminal."""
    position, title = question.position, question.title[:80]
    if not question.choices:
        none_left = message(
            "crewai.no_task_left",
            position=position,
            title=title,
        )
        return [none_left]
    sentences = [message(QUESTIONS[question.kind, question.reason], position=position, title=title)]
    asked = question.position if question.kind == "task" else question.saved
    listed = ", ".join(f"{key} (“{title[:60]}”)" for key, title in question.choices if key != GONE)
    if listed:
        sentences.append(message("crewai.match_choices", asked=asked, choices=listed))
    if GONE in dict(question.choices):
        sentences.append(message("crewai.match_gone", asked=asked, gone=GONE))
    return sentences


def add_components(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    """Add the components and questions of a crew to a preflight report, and restore it from a copy.

    ``saved`` is its data; both it and ``body`` are empty for a new run. Nothing runs. Raises Refused.
    """
    if not request["entry_point"]:
        report["components"] = components.of_restored_crew(
            saved, restoring.events_in(body), effects.may_import
        )
        report["imports"] += components.modules_in(saved)
        entity, _lost = effects.clean_crew(saved, effects.may_import, os.environ)
        restoring.restored(body, [entity], request, scratch)
        return
    crew = new_crew(request)
    _note_unwritable(report, crew)
    if not saved:
        report["components"] = components.of_project_crew(crew, {}, Matching())
        report["components"] += models.missing_models(crew)
        return
    agents, tasks = matched(crew, saved, request)
    report["components"] = [*components.of_project_crew(crew, saved, tasks), *models.missing_models(crew)]
    for question in (*agents.questions, *tasks.questions):
        if question.choices:
            report["questions"].append(asdict(question))
        else:
            report["blocks"] += sentences_of(question)
    restoring.restored(body, [], request, scratch)


def _note_unwritable(report: Report, crew: Any) -> None:
    """Note if this engine could not write a checkpoint of the crew without Forkline's patches."""
    try:
        RuntimeState(root=[crew]).model_dump_json()
    except Exception as error:
        report["notes"].append({"what": "unwritten", "detail": shortened(str(error).splitlines()[0], 300)})


# The crew on its branch.

SURELY_CALLED = {"again", "runs"}
UNFINISHED = {"runs", "may"}
UNCHANGED = {"kept", *UNFINISHED}


def prepare(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """Return the crew, on its branch and ready to be kicked off. Raises Refused.

    ``saved`` is its edited data. With an entry point it is the project's crew with the saved ids and outputs,
    and with its own tools, guardrails, callbacks and links between tasks. Without one it is restored.
    """
    events = restoring.events_in(body)
    is_project_crew = bool(request["entry_point"])
    if not is_project_crew:
        components.report_and_refuse(
            components.of_restored_crew(saved, events, effects.may_import), request, reporter
        )
    crew = project_crew(saved, request, reporter) if is_project_crew else state.root[0]
    _set_up(crew, saved, events, request)
    restoring.attach(state, crew)
    crew._restore_runtime()
    models.choose_for_crew(crew, saved, request)
    if not is_project_crew:
        _relink(crew, saved, events, request, reporter)
    _interpolate(crew, saved, request, is_project_crew, reporter)
    _make_outputs_agree(crew, request)
    edited = bool(request["inputs"] or request["outputs"])
    restoring.write_first(
        state, request, edited or any(step["action"] == "again" for step in request["steps"])
    )
    hold_tasks(
        {step["task"] for step in request["steps"] if step["action"] not in CALLED},
        set() if is_project_crew else _skipped_again(request, events, reporter),
    )
    _adapt_kickoff_hooks(crew, request, reporter)
    models.before_first_task(crew, request, reporter)
    return crew


def _set_up(crew: Any, saved: Mapping[str, Any], events: list[dict[str, Any]], request: Request) -> None:
    """Set the crew to continue from the saved checkpoint and to write new ones."""
    crew.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), crew.checkpoint)
    for agent in crew.agents:
        agent.checkpoint = None  # the crew's settings apply to all
    # Without this id the engine would start from the beginning.
    crew.checkpoint_kickoff_event_id = saved.get("checkpoint_kickoff_event_id") or str(uuid.uuid4())
    crew.checkpoint_inputs = _inputs(saved, events) or None
    crew.stream = False
    if any(task.output for task in crew.tasks):
        crew.planning = False  # the tasks' texts contain the plan already


def _inputs(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the recorded inputs with their types."""
    if isinstance(saved.get("checkpoint_inputs"), dict):
        return dict(saved["checkpoint_inputs"])
    started = next((event for event in events if event.get("type") == "crew_kickoff_started"), {})
    return dict(started.get("inputs") or {})


def run(crew: Any, inputs: Mapping[str, Any] | None = None) -> str:
    """Kick off the crew, with inputs if it is a new run. Return its final output."""
    return str((crew.kickoff(inputs=dict(inputs)) if inputs else crew.kickoff()).raw)


def _relink(
    crew: Any, saved: Mapping[str, Any], events: list[dict[str, Any]], request: Request, reporter: Reporter
) -> None:
    """Restore the links between tasks from the recorded events. Warn of tasks whose links are unknown."""
    found = components.context_links(saved.get("tasks") or [], events)
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
        reporter.warn("crewai.task_links_unknown", positions=", ".join(unknown))


def _interpolate(
    crew: Any, saved: Mapping[str, Any], request: Request, is_project_crew: bool, reporter: Reporter
) -> None:
    """Put the inputs into the texts of tasks that will run. Kept tasks retain their texts."""
    before = dict(crew.checkpoint_inputs or {})
    inputs = {**before, **request["inputs"]}
    crew._inputs = crew.checkpoint_inputs = inputs or None
    called = {step["task"] for step in request["steps"] if step["action"] in CALLED}
    tasks = [task for task in crew.tasks if str(task.id) in called or task.output is None]
    unfilled = any(placeholders(task.description) & inputs.keys() for task in tasks)
    if not inputs or not (is_project_crew or request["inputs"] or unfilled):
        return
    for task in tasks:
        _interpolate_task(task, inputs)
    for agent in crew.agents if is_project_crew else ():
        agent.interpolate_inputs(_with_placeholders(inputs, agent.role, agent.goal, agent.backstory))
    if not is_project_crew:
        _warn_of_old_roles(tasks, before, request, reporter)


def _interpolate_task(task: Any, inputs: Mapping[str, Any]) -> None:
    """Fill the templates of the task's description and expected output."""
    texts = (
        task._original_description or task.description,
        task._original_expected_output or task.expected_output,
    )
    task.interpolate_inputs_and_add_conversation_history(_with_placeholders(inputs, *texts, task.output_file))


def _with_placeholders(inputs: Mapping[str, Any], *texts: str | None) -> dict[str, Any]:
    """Return the inputs, with unknown placeholders mapped to themselves, as the engine would refuse them."""
    unknown = set().union(*(placeholders(text) for text in texts)) - inputs.keys()
    return {**{name: "{" + name + "}" for name in unknown}, **inputs}


def _warn_of_old_roles(
    tasks: list[Any], before: dict[str, Any], request: Request, reporter: Reporter
) -> None:
    for name in request["inputs"]:
        old = str(before.get(name, "")).strip()
        for role in {task.agent.role for task in tasks if task.agent and old}:
            agent = next(task.agent for task in tasks if task.agent and task.agent.role == role)
            if any(old in text for text in (agent.role, agent.goal, agent.backstory)):
                reporter.warn("crewai.agent_names_former_input", role=role.strip(), input=name)


def _make_outputs_agree(crew: Any, request: Request) -> None:
    """Build the models of JSON outputs from their texts. Raises Refused for an edit that does not fit."""
    for position, task in enumerate(crew.tasks, 1):
        if task.output is None or task.output_pydantic is None:
            continue
        try:
            task.output.pydantic = task.output_pydantic.model_validate_json(task.output.raw)
        except ValidationError as error:
            if str(task.id) in request["outputs"]:
                raise Refused(
                    "crewai.output_does_not_fit", position=position, error=restoring.reasons_of(error)
                ) from error


def _skipped_again(request: Request, events: list[dict[str, Any]], reporter: Reporter) -> set[str]:
    """Return the ids of the tasks that a restored crew skips again. Warn of those that may run instead."""
    skipped, unclear = _skipped_tasks(request, events)
    if skipped:
        positions = [position for position, step in enumerate(request["steps"], 1) if step["task"] in skipped]
        reporter.warn(
            "crewai.skipped_tasks_stay_skipped",
            positions=", ".join(map(str, positions)),
        )
    if unclear:
        reporter.warn(
            "crewai.skipped_tasks_run",
            positions=", ".join(map(str, unclear)),
        )
    return skipped


def _skipped_tasks(request: Request, events: list[dict[str, Any]]) -> tuple[set[str], list[int]]:
    """Return the ids of the tasks to skip again, and the positions of skipped tasks that may run now.

    A task was skipped if it has no output, and one after it has. A checkpoint does not contain conditions.
    The condition of a task that never started is false if all tasks before it are unchanged; after a change
    it may be true.
    """
    started = {str(event.get("task_id")) for event in events if event.get("type") == "task_started"}
    steps = request["steps"]
    skipped, unclear = set(), []
    for position, step in enumerate(steps, 1):
        later_actions = {later["action"] for later in steps[position:]}
        is_skipped = step["action"] in UNFINISHED and later_actions - UNFINISHED
        if not is_skipped or step["task"] in started:
            continue
        if {earlier["action"] for earlier in steps[: position - 1]} <= UNCHANGED:
            skipped.add(step["task"])
        else:
            unclear.append(position)
    return skipped, unclear


def _adapt_kickoff_hooks(crew: Any, request: Request, reporter: Reporter) -> None:
    """Call the hooks before the kickoff with the run's inputs, and those after it only if something ran.

    The engine would call the hooks before the kickoff without inputs. What they return is not used: they
    returned the checkpoint's inputs, which a person may have edited. The kickoff raises Refused if one of
    these hooks fails.
    """
    crew.before_kickoff_callbacks = [_with_inputs(crew, hook) for hook in crew.before_kickoff_callbacks]
    if not any(step["action"] in SURELY_CALLED for step in request["steps"]):
        crew.after_kickoff_callbacks = []
    if any(getattr(owner, "memory", None) for owner in (crew, *crew.agents)):
        reporter.warn("crewai.memory_not_in_checkpoint")


def _with_inputs(crew: Any, hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    def called(_kickoff: Any) -> None:
        try:
            hook(dict(crew.checkpoint_inputs or {}))
        except Exception as error:
            raise Refused(
                "crewai.kickoff_hook_failed",
                name=getattr(hook, "__name__", repr(hook)),
                kind=type(error).__name__,
                error=error,
            ) from error

    return called
