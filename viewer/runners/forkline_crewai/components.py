"""The components of a run besides texts and values, such as tools, and where each comes from.

A component is ``what`` (such as tools), ``name``, its owner (``task``: a position; ``agent``: a role;
neither: the crew) and its ``fate``: restored from the checkpoint, the project's, or lost. The links between
tasks are not in a checkpoint, and inferred. Does not import the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from forkline_crewai.effects import ENGINE_TOOLS, LOST, MADE_OF_FUNCTIONS, ToolCheck, dicts_in
from forkline_runner.findings import MAX_COMPONENTS
from forkline_runner.reporting import Refused, shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# What the engine considers a placeholder.
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)}")
# The answer for a saved task or agent that the project no longer has.
GONE = "-"
MAX_TITLE = 160
UNKNOWN = {
    "agent": "crewai.unknown_project_agent",
    "task": "crewai.unknown_project_task",
}
TWICE = {
    "agent": "crewai.project_agent_chosen_twice",
    "task": "crewai.project_task_chosen_twice",
}
PartKind = Literal["task", "agent"]
# Why a question is asked: no equal text, several equal texts, another agent, another position.
MatchReason = Literal["changed", "twice", "role", "order"]


@dataclass(frozen=True, slots=True)
class CrewPart:
    """A task or an agent, of the checkpoint or of the project.

    ``key``: the id of a saved unit; the number of a project's task; the role of a project's agent.
    ``text``: a task's original description or an agent's role. ``agent``: the key of the task's agent.
    """

    key: str
    id: str
    text: str
    agent: str = ""
    # Of a saved unit: whether its text still has the placeholders, and whether it has finished.
    is_template: bool = True
    is_finished: bool = False


@dataclass(frozen=True, slots=True)
class MatchQuestion:
    """Asks which task or agent of the project corresponds to a saved one.

    ``choices`` has the keys and titles of the candidates, and GONE if the project may lack the saved unit.
    """

    kind: PartKind
    saved: str
    position: int
    title: str
    reason: MatchReason
    choices: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Matching:
    """The saved units and their counterparts in the project. Complete if there are no questions.

    ``pairs`` maps the id of a saved unit to the key of the project's, or to GONE.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    questions: list[MatchQuestion] = field(default_factory=list)
    # The keys of the project's units that the checkpoint lacks.
    left_out: list[str] = field(default_factory=list)


class WrongAnswer(Refused):
    """An answer names an unknown task or agent, or two answers name the same one."""


def match_agents(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str]
) -> Matching:
    """Return the matching of agents by id and role. Raises WrongAnswer."""

    def fits(one: CrewPart, other: CrewPart) -> bool:
        return can_produce(other.text, one.text)

    return _match("agent", saved, current, answers, fits, fits)


def match_tasks(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str], agents: Matching
) -> Matching:
    """Return the matching of tasks by id, original description and role. Raises WrongAnswer.

    An agent without a match does not cause questions about its tasks.
    """

    def same_text(one: CrewPart, other: CrewPart) -> bool:
        if one.is_template:
            return one.text.strip() == other.text.strip()
        return can_produce(other.text, one.text)

    def fits(one: CrewPart, other: CrewPart) -> bool:
        agent = agents.pairs.get(one.agent, GONE)
        return same_text(one, other) and (GONE in (agent, other.agent or GONE) or agent == other.agent)

    return _match("task", saved, current, answers, fits, same_text)


def placeholders(text: str | None) -> set[str]:
    """Return the names of the text's placeholders."""
    return set(PLACEHOLDER.findall(text or ""))


def filled(text: str, inputs: Mapping[str, Any]) -> str:
    """Return the text with the inputs filled in, as the engine does. Others stay placeholders."""
    return PLACEHOLDER.sub(lambda found: str(inputs.get(found[1], found[0])), text)


def can_produce(template: str, text: str) -> bool:
    """Return whether the template can produce this text with some values for its placeholders."""
    text, (first, *rest) = text.strip(), PLACEHOLDER.split(template.strip())[::2]
    if not rest:
        return first == text
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= at


def _match(
    kind: PartKind,
    saved: Sequence[CrewPart],
    current: Sequence[CrewPart],
    answers: Mapping[str, str],
    fits: Any,
    alike: Any,
) -> Matching:
    pairs = _answered(kind, saved, current, answers)
    answered = set(pairs)
    for one in saved:
        other = next((other for other in current if other.id == one.id), None)
        if one.key not in pairs and other and other.key not in pairs.values():
            pairs[one.key] = other.key
    open_saved = [one for one in saved if one.key not in pairs]
    open_current = [other for other in current if other.key not in pairs.values()]
    for one in open_saved:
        found = [other for other in open_current if fits(one, other)]
        if len(found) == 1 and sum(fits(another, found[0]) for another in open_saved) == 1:
            pairs[one.key] = found[0].key
    moved = _out_of_order(saved, current, pairs, answered) if kind == "task" else set()
    asked = [one for one in saved if one.key not in pairs or one.key in moved]
    for one in asked:
        pairs.pop(one.key, None)
    left = [other for other in current if other.key not in pairs.values()]
    return Matching(
        pairs,
        [_question(kind, one, saved.index(one) + 1, left, fits, alike, moved) for one in asked],
        [other.key for other in left],
    )


def _answered(
    kind: PartKind, saved: Sequence[CrewPart], current: Sequence[CrewPart], answers: Mapping[str, str]
) -> dict[str, str]:
    keys = {other.key for other in current}
    pairs = {one.key: answers[one.key] for one in saved if answers.get(one.key)}
    chosen = [key for key in pairs.values() if key != GONE]
    unknown = next((key for key in chosen if key not in keys), None)
    if unknown is not None:
        raise WrongAnswer(UNKNOWN[kind], unknown=unknown)
    twice = next((key for key in chosen if chosen.count(key) > 1), None)
    if twice is not None:
        raise WrongAnswer(TWICE[kind], twice=twice)
    for one in saved:
        if kind == "task" and pairs.get(one.key) == GONE and not one.is_finished:
            raise WrongAnswer("crewai.task_needs_match", title=_title(one))
    return pairs


def _out_of_order(
    saved: Sequence[CrewPart], current: Sequence[CrewPart], pairs: Mapping[str, str], answered: Iterable[str]
) -> set[str]:
    """Return the keys of saved tasks that the project has in another order, except the answered ones."""
    project_positions = {other.key: position for position, other in enumerate(current)}
    matched = [
        (one.key, project_positions[pairs[one.key]])
        for one in saved
        if pairs.get(one.key, GONE) != GONE and one.key not in answered
    ]
    return {
        key
        for index, (key, position) in enumerate(matched)
        if any(before > position for _, before in matched[:index])
        or any(after < position for _, after in matched[index + 1 :])
    }


def _question(
    kind: PartKind,
    one: CrewPart,
    position: int,
    left: Sequence[CrewPart],
    fits: Any,
    alike: Any,
    moved: Iterable[str],
) -> MatchQuestion:
    reason: MatchReason = "changed"
    if one.key in moved:
        reason = "order"
    elif any(fits(one, other) for other in left):
        reason = "twice"
    elif any(alike(one, other) for other in left):
        reason = "role"
    choices = [(other.key, _title(other)) for other in left]
    if kind == "agent" or one.is_finished:
        choices.append((GONE, ""))
    return MatchQuestion(kind, one.key, position, _title(one), reason, tuple(choices))


def _title(one: CrewPart) -> str:
    return shortened(" ".join(one.text.split()), MAX_TITLE)


Component = dict[str, Any]
MAX_NAME = 120
# The fields of crews, tasks and agents that hold components other than tools and models.
FIELDS = {**LOST, "condition": "conditions"}
# The engine's separator between the outputs that it passes to a task.
DIVIDER = "\n\n----------\n\n"


def component(what: str, name: Any, fate: str, task: int = 0, agent: str = "") -> Component:
    """Return one component, with its name shortened."""
    return {
        "what": what,
        "name": shortened(str(name or ""), MAX_NAME),
        "task": task,
        "agent": agent,
        "fate": fate,
    }


def title_of(one: Component) -> str:
    """Return the text that identifies an accepted loss. viewer/web/launch/edits.py builds the same."""
    where = f"task {one['task']}" if one["task"] else one["agent"]
    return "/".join(str(text) for text in (one["what"], where, one["name"]) if text)


def lost(found: Sequence[Component]) -> list[Component]:
    """Return the components that the run would lack."""
    return [one for one in found if one["fate"] == "lost"]


def report_and_refuse(
    found: Sequence[Component], request: Request, reporter: Reporter, questions: Sequence[Any] = ()
) -> None:
    """Report the run's components before anything runs, if the request lists the accepted losses.

    Raises Refused for a loss that is not accepted. With ``questions``, the caller refuses the run.
    """
    accepted = request.get("options", {}).get("accepted")
    if accepted is None:
        return
    asked = [asdict(question) for question in questions]
    reporter.write("preflight", report={"components": list(found)[:MAX_COMPONENTS], "questions": asked})
    if "*" in accepted or asked:
        return
    missing = [title_of(one) for one in lost(found) if title_of(one) not in accepted]
    if missing:
        raise Refused("crewai.losses_not_accepted", parts="; ".join(missing))


def of_restored_crew(
    saved: Mapping[str, Any], events: list[dict[str, Any]], may_import: ToolCheck
) -> list[Component]:
    """Return the components of a crew that is restored from the checkpoint alone."""
    found = [*_fields(saved, "lost")]
    for agent in dicts_in(saved.get("agents")):
        found += of_restored_agent(agent, may_import)
    tasks = dicts_in(saved.get("tasks"))
    links = context_links(tasks, events)
    # From the recorded events, because edits remove outputs.
    started = {str(event.get("task_id")) for event in events if event.get("type") == "task_started"}
    begun = [str(task.get("id")) in started for task in tasks]
    for position, task in enumerate(tasks, 1):
        found += _fields(task, "lost", task=position)
        found += [
            component("tools", name, fate, task=position) for name, fate in _saved_tools(task, may_import)
        ]
        if position > 1 and str(task.get("id")) not in links:
            found.append(component("links", "", "lost", task=position))
        if not begun[position - 1] and any(begun[position:]):
            found.append(component("conditions", "", "lost", task=position))
    # Functions leave no trace in a checkpoint: only the code shows whether there were any.
    return [*_once(found), component("unseen", "", "lost")]


def of_restored_agent(saved: Mapping[str, Any], may_import: ToolCheck) -> list[Component]:
    """Return the components of an agent that is restored from the checkpoint alone."""
    role = str(saved.get("role") or "").strip()
    found = [*_fields(saved, "lost", agent=role)]
    found += [component("tools", name, fate, agent=role) for name, fate in _saved_tools(saved, may_import)]
    model = saved.get("llm")
    if model:
        name = model.get("model") if isinstance(model, dict) else model
        # Only classes of the engine are restored.
        is_own = isinstance(model, dict) and model.get("llm_type") == "base"
        found.append(component("models", name, "lost" if is_own else "restored", agent=role))
    return found


def of_project_crew(crew: Any, saved: Mapping[str, Any], tasks: Matching) -> list[Component]:
    """Return the components of the project's crew, and those of the checkpoint that it lacks."""
    found = [*_fields(fields_of(crew), "project")]
    for agent in crew.agents:
        found += of_project_agent(agent)
    numbers = {key: saved_id for saved_id, key in tasks.pairs.items()}
    order = [str(task.get("id")) for task in dicts_in(saved.get("tasks"))]
    tools = {tool.name for owner in (*crew.agents, *crew.tasks) for tool in owner.tools or []}
    for number, task in enumerate(crew.tasks, 1):
        saved_id = numbers.get(str(number))
        # A new run has the project's order.
        position = order.index(saved_id) + 1 if saved_id else 0 if saved else number
        if position:
            found += _fields(fields_of(task), "project", task=position)
            found += [component("tools", tool.name, "project", task=position) for tool in task.tools or []]
            if isinstance(task.context, list) and task.context:
                found.append(component("links", "", "project", task=position))
    for key in [] if tasks.questions else tasks.left_out:
        text = " ".join(str(crew.tasks[int(key) - 1].description).split())
        found.append(component("tasks", f"{key}. {text}", "lost"))
    for position, data in enumerate(dicts_in(saved.get("tasks")), 1):
        names = [name for name, _ in _saved_tools(data, lambda _: True)]
        found += [component("tools", name, "lost", task=position) for name in names if name not in tools]
    return _once(found)


def of_project_agent(agent: Any) -> list[Component]:
    """Return the components of an agent that the project's code makes."""
    role = str(agent.role).strip()
    found = [*_fields(fields_of(agent), "project", agent=role)]
    found += [component("tools", tool.name, "project", agent=role) for tool in agent.tools or []]
    if agent.llm is not None:
        name = f"{type(agent.llm).__name__} {getattr(agent.llm, 'model', '')}".strip()
        found.append(component("models", name, "project", agent=role))
    return found


def of_project_flow(flow: Any, saved: Mapping[str, Any]) -> list[Component]:
    """Return the methods of the project's flow, and the finished methods that it no longer has."""
    methods = [str(name) for name in flow._methods]
    finished = [str(name) for name in saved.get("checkpoint_completed_methods") or []]
    return [
        *[component("methods", name, "project") for name in methods],
        *[component("methods", name, "lost") for name in finished if name not in methods],
    ]


def modules_in(saved: Mapping[str, Any]) -> set[str]:
    """Return the modules that restoring would import for the checkpoint's tools."""
    owners = [saved, *dicts_in(saved.get("agents")), *dicts_in(saved.get("tasks"))]
    kinds = {str(tool.get("tool_type") or "") for owner in owners for tool in dicts_in(owner.get("tools"))}
    return {kind.rpartition(".")[0] for kind in kinds if kind and not kind.startswith("crewai.")}


def fields_of(model: Any) -> dict[str, Any]:
    """Return the fields of an object that hold components, by name."""
    return {name: getattr(model, name, None) for name in FIELDS}


def _fields(owner: Mapping[str, Any], fate: str, task: int = 0, agent: str = "") -> Iterator[Component]:
    for name, what in FIELDS.items():
        value = owner.get(name)
        if not value:
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            yield component(what, _name(one), fate, task, agent)


def _name(value: Any) -> str:
    """Return the name of a function, class or file; empty for other values."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", "")).rpartition("<locals>.")[2]


def _saved_tools(owner: Mapping[str, Any], may_import: ToolCheck) -> Iterator[tuple[str, str]]:
    """Yield the name of each tool, with its fate."""
    for tool in dicts_in(owner.get("tools")):
        kind = str(tool.get("tool_type") or "")
        if not kind.startswith(ENGINE_TOOLS):
            keeps = kind not in MADE_OF_FUNCTIONS and may_import(kind)
            yield str(tool.get("name") or kind), "restored" if keeps else "lost"


def _once(found: Sequence[Component]) -> list[Component]:
    """Return the first of equal components: a task also has its agent's tools."""
    seen: dict[str, Component] = {}
    for one in found:
        seen.setdefault(f"{title_of(one)}/{one['fate']}", one)
    return list(seen.values())


def context_links(
    tasks: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> dict[str, list[str] | None]:
    """Return for each started task the ids of the tasks it reads, or None if it reads all tasks before it.

    They are inferred from the context that the task received. A task that never started, or whose context is
    ambiguous, is left out.

        context of task 3   output of 1, output of 2   -> None
                            output of 1                -> ["1"]
                            nothing                    -> []
    """
    found: dict[str, list[str] | None] = {}
    order = [str(task.get("id")) for task in tasks]
    outputs: dict[str, str] = {}
    for event in events:
        task = str(event.get("task_id") or "")
        if event.get("type") == "task_completed" and isinstance(event.get("output"), dict):
            outputs[task] = str(event["output"].get("raw") or "")
        if event.get("type") == "task_started" and task in order:
            before = [(other, outputs[other]) for other in order[: order.index(task)] if other in outputs]
            read = _tasks_in(str(event.get("context") or ""), before)
            if not isinstance(read, bool):
                found[task] = read
    return found


def _tasks_in(context: str, before: list[tuple[str, str]]) -> list[str] | bool | None:
    """Return the ids of the tasks whose outputs form a context; None for all of them, False if ambiguous.

    ``before`` has the ids and outputs of the earlier tasks.
    """
    if context == DIVIDER.join(text for _, text in before):
        return None
    if not context:
        return []
    read: list[str] = []
    rest = context
    for task, text in before:
        if text and (rest == text or rest.startswith(text + DIVIDER)):
            read.append(task)
            rest = rest[len(text) + len(DIVIDER) :]
    return read if read and not rest else False
