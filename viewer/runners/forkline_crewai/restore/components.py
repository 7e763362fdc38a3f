"""What a run is made of beside texts and values, and where each part comes from. No engine.

A part is ``what`` (such as tools), ``name``, where it belongs (``task``: a position; ``agent``: a role;
neither: the whole) and its ``fate``: restored from the checkpoint, the project's own, or lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore import context_links
from forkline_crewai.restore.sanitizing import LOST, MADE_OF_FUNCTIONS, OWN_TOOLS, ToolCheck
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_crewai.restore.matching import Matching
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import Request

Part = dict[str, Any]
MOST_NAME = 120
MOST_PARTS = 300
# What the fields of a crew, its tasks and agents hold, beside those that a checkpoint may name.
FIELDS = {**LOST, "condition": "conditions"}


def part(what: str, name: Any, fate: str, task: int = 0, agent: str = "") -> Part:
    """One part, its name cut to what can be shown."""
    return {
        "what": what,
        "name": shortened(str(name or ""), MOST_NAME),
        "task": task,
        "agent": agent,
        "fate": fate,
    }


def title_of(one: Part) -> str:
    """What a loss is accepted by: the same words for the same thing."""
    where = f"task {one['task']}" if one["task"] else one["agent"]
    return "/".join(str(text) for text in (one["what"], where, one["name"]) if text)


def lost(found: Sequence[Part]) -> list[Part]:
    """Those that the run would go on without."""
    return [one for one in found if one["fate"] == "lost"]


def account(
    found: Sequence[Part], request: Request, reporter: Reporter, questions: Sequence[Any] = ()
) -> None:
    """Where the request says what was accepted: tell what the run has and lacks, before anything runs.

    Raises Refused for a loss that is not accepted. What is still in question is its caller's to refuse.
    """
    accepted = request.get("options", {}).get("accepted")
    if accepted is None:
        return
    asked = [asdict(question) for question in questions]
    reporter.write("preflight", report={"components": list(found)[:MOST_PARTS], "questions": asked})
    if "*" in accepted or asked:
        return
    missing = [title_of(one) for one in lost(found) if title_of(one) not in accepted]
    if missing:
        raise Refused(
            _(
                "Nothing has run, for this would be lost and nobody has accepted it: %(parts)s. "
                "Accept it in the form, or with --accept-losses; or name the entry point that has "
                "it."
            ),
            parts="; ".join(missing),
        )


def of_restored_crew(
    saved: Mapping[str, Any], events: list[dict[str, Any]], may_import: ToolCheck
) -> list[Part]:
    """The parts of a crew that is made from the checkpoint alone."""
    found = [*_fields(saved, "lost")]
    for agent in _dicts(saved.get("agents")):
        found += of_restored_agent(agent, may_import)
    tasks = _dicts(saved.get("tasks"))
    links = context_links.links(tasks, events)
    # By the record alone: a person's edits take outputs away.
    started = {str(event.get("task_id")) for event in events if event.get("type") == "task_started"}
    begun = [str(task.get("id")) in started for task in tasks]
    for position, task in enumerate(tasks, 1):
        found += _fields(task, "lost", task=position)
        found += [part("tools", name, fate, task=position) for name, fate in _saved_tools(task, may_import)]
        if position > 1 and str(task.get("id")) not in links:
            found.append(part("links", "", "lost", task=position))
        if not begun[position - 1] and any(begun[position:]):
            found.append(part("conditions", "", "lost", task=position))
    # Functions leave no trace in a checkpoint: only the code could tell whether there were any.
    return [*_once(found), part("unseen", "", "lost")]


def of_restored_agent(saved: Mapping[str, Any], may_import: ToolCheck) -> list[Part]:
    """The parts of an agent that is made from the checkpoint alone."""
    role = str(saved.get("role") or "").strip()
    found = [*_fields(saved, "lost", agent=role)]
    found += [part("tools", name, fate, agent=role) for name, fate in _saved_tools(saved, may_import)]
    model = saved.get("llm")
    if model:
        name = model.get("model") if isinstance(model, dict) else model
        # Its class is kept of the engine's own alone.
        is_own = isinstance(model, dict) and model.get("llm_type") == "base"
        found.append(part("models", name, "lost" if is_own else "restored", agent=role))
    return found


def of_own_crew(crew: Any, saved: Mapping[str, Any], tasks: Matching) -> list[Part]:
    """The parts of the project's own crew, before it was given the checkpoint's shape; and what it lacks."""
    found = [*_fields(vars_of(crew), "project")]
    for agent in crew.agents:
        found += of_own_agent(agent)
    numbers = {key: saved_id for saved_id, key in tasks.pairs.items()}
    order = [str(task.get("id")) for task in _dicts(saved.get("tasks"))]
    tools = {tool.name for owner in (*crew.agents, *crew.tasks) for tool in owner.tools or []}
    for number, task in enumerate(crew.tasks, 1):
        saved_id = numbers.get(str(number))
        # A run that begins has the project's own order.
        position = order.index(saved_id) + 1 if saved_id else 0 if saved else number
        if position:
            found += _fields(vars_of(task), "project", task=position)
            found += [part("tools", tool.name, "project", task=position) for tool in task.tools or []]
            if isinstance(task.context, list) and task.context:
                found.append(part("links", "", "project", task=position))
    for key in [] if tasks.questions else tasks.left_out:
        words = " ".join(str(crew.tasks[int(key) - 1].description).split())
        found.append(part("tasks", f"{key}. {words}", "lost"))
    for position, data in enumerate(_dicts(saved.get("tasks")), 1):
        names = [name for name, _ in _saved_tools(data, lambda _: True)]
        found += [part("tools", name, "lost", task=position) for name in names if name not in tools]
    return _once(found)


def of_own_agent(agent: Any) -> list[Part]:
    """The parts of an agent that the project's own code makes."""
    role = str(agent.role).strip()
    found = [*_fields(vars_of(agent), "project", agent=role)]
    found += [part("tools", tool.name, "project", agent=role) for tool in agent.tools or []]
    if agent.llm is not None:
        name = f"{type(agent.llm).__name__} {getattr(agent.llm, 'model', '')}".strip()
        found.append(part("models", name, "project", agent=role))
    return found


def of_own_flow(flow: Any, saved: Mapping[str, Any]) -> list[Part]:
    """The methods of the project's own flow, and the finished ones that it does not have any more."""
    own = [str(name) for name in flow._methods]
    finished = [str(name) for name in saved.get("checkpoint_completed_methods") or []]
    return [
        *[part("methods", name, "project") for name in own],
        *[part("methods", name, "lost") for name in finished if name not in own],
    ]


def modules_in(saved: Mapping[str, Any]) -> set[str]:
    """The modules that restoring would import for the tools that the checkpoint names."""
    owners = [saved, *_dicts(saved.get("agents")), *_dicts(saved.get("tasks"))]
    kinds = {str(tool.get("tool_type") or "") for owner in owners for tool in _dicts(owner.get("tools"))}
    return {kind.rpartition(".")[0] for kind in kinds if kind and not kind.startswith("crewai.")}


def vars_of(model: Any) -> dict[str, Any]:
    """A live object's fields by name, as far as they are parts."""
    return {name: getattr(model, name, None) for name in FIELDS}


def _fields(owner: Mapping[str, Any], fate: str, task: int = 0, agent: str = "") -> Iterator[Part]:
    for field, what in FIELDS.items():
        value = owner.get(field)
        if not value:
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            yield part(what, _name(one), fate, task, agent)


def _name(value: Any) -> str:
    """The name of a function, class or file; nothing of a value that is only there."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", "")).rpartition("<locals>.")[2]


def _saved_tools(owner: Mapping[str, Any], may_import: ToolCheck) -> Iterator[tuple[str, str]]:
    """The tools' names, each with its fate."""
    for tool in _dicts(owner.get("tools")):
        kind = str(tool.get("tool_type") or "")
        if not kind.startswith(OWN_TOOLS):
            keeps = kind not in MADE_OF_FUNCTIONS and may_import(kind)
            yield str(tool.get("name") or kind), "restored" if keeps else "lost"


def _once(found: Sequence[Part]) -> list[Part]:
    """A task has its agent's tools, too: each part is told where it comes first."""
    told: dict[str, Part] = {}
    for one in found:
        told.setdefault(f"{title_of(one)}/{one['fate']}", one)
    return list(told.values())


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value or [] if isinstance(one, dict)] if isinstance(value, list) else []
