"""The components of a run besides texts and values, such as tools, and where each comes from.

A component is ``what`` (such as tools), ``name``, its owner (``task``: a position; ``agent``: a role;
neither: the crew) and its ``fate``: restored from the checkpoint, the project's, or lost. The links between
tasks are not in a checkpoint, and inferred. Does not import the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from forkline_crewai.sanitizing import ENGINE_TOOLS, LOST, MADE_OF_FUNCTIONS, ToolCheck, dicts_in
from forkline_runner.findings import MAX_COMPONENTS
from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_crewai.matching import Matching
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

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
    for field, what in FIELDS.items():
        value = owner.get(field)
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
