"""Resumes or forks a crew."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from forkline_crewai.patches import held_tasks
from forkline_crewai.restore import components, context_links, restoring, skipped_tasks
from forkline_crewai.restore.project_crew import project_crew
from forkline_crewai.run import cache_warmup, kickoff_hooks, models, tools
from forkline_crewai.run.interpolation import interpolate_agent, interpolate_task, placeholders
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


CALLED = {"again", "runs", "may"}


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
            components.of_restored_crew(saved, events, tools.may_import), request, reporter
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
    held_tasks.apply(
        {step["task"] for step in request["steps"] if step["action"] not in CALLED},
        set() if is_project_crew else _skipped_tasks(request, events, reporter),
    )
    kickoff_hooks.adapt(crew, request, reporter)
    cache_warmup.before_first_task(crew, request, reporter)
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


def run(crew: Any, inputs: Mapping[str, Any] | None = None) -> str:
    """Kick off the crew, with inputs if it is a new run. Return its final output."""
    return str((crew.kickoff(inputs=dict(inputs)) if inputs else crew.kickoff()).raw)


def _inputs(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the recorded inputs with their types."""
    if isinstance(saved.get("checkpoint_inputs"), dict):
        return dict(saved["checkpoint_inputs"])
    started = next((event for event in events if event.get("type") == "crew_kickoff_started"), {})
    return dict(started.get("inputs") or {})


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
        interpolate_task(task, inputs)
    for agent in crew.agents if is_project_crew else ():
        interpolate_agent(agent, inputs)
    if not is_project_crew:
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
                    "crewai.agent_names_former_input",
                    role=role.strip(),
                    input=name,
                )


def _relink(
    crew: Any, saved: Mapping[str, Any], events: list[dict[str, Any]], request: Request, reporter: Reporter
) -> None:
    """Restore the links between tasks from the recorded events. Warn of tasks whose links are unknown."""
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
            "crewai.task_links_unknown",
            positions=", ".join(unknown),
        )


def _skipped_tasks(request: Request, events: list[dict[str, Any]], reporter: Reporter) -> set[str]:
    """Return the ids of the tasks that a restored crew skips again. Warn of those that may run instead."""
    skipped, unclear = skipped_tasks.skipped_tasks(request, events)
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
                    "crewai.output_does_not_fit",
                    position=position,
                    error=error,
                ) from error
