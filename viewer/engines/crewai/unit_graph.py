"""The graph of a crew's tasks or of a flow's methods, from a checkpoint and the project's source."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from viewer.engines.contents import GraphEdge, UnitGraph
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.flow_plan import FlowMethod
from viewer.engines.crewai.input_names import ConditionalTasks
from viewer.engines.crewai.planning import following_of

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
