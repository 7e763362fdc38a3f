"""The project's crew with the ids, outputs and order of a checkpoint.

Its tasks and agents are matched to the saved ones if the match is certain, otherwise by a person's answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai import Crew, Task
from crewai.tasks.task_output import TaskOutput

from forkline_crewai import components, entry_points, matching, models
from forkline_crewai.matching import GONE, CrewPart, Matching, MatchQuestion
from forkline_crewai.sanitizing import dicts_in
from forkline_runner.messages import Message, Refused, message

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

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
    crew = made(request)
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


def made(request: Request) -> Any:
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
    agents = matching.match_agents(_saved_agents(saved), project_agents, answers)
    return agents, matching.match_tasks(_saved_tasks(saved), project_tasks, answers, agents)


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
