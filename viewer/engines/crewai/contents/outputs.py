"""What the run had just produced when a checkpoint was written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewer.engines.crewai.contents import Contents, Method, Task
from viewer.engines.crewai.contents.events import Event

# The events that end with something to read. A crew's and a flow's own end repeat their last unit's output.
PRODUCING = frozenset(
    {"task_completed", "method_execution_finished", "llm_call_completed", "tool_usage_finished"}
    | {"agent_execution_completed", "lite_agent_execution_completed"}
)


@dataclass(frozen=True, slots=True)
class Output:
    """The newest output. ``value`` is a text or a JSON value.

    ``unit`` is the id of the task or the name of the method that returned it, and ``event`` the kind of the
    event that holds it; one of them is empty. ``state`` is what a method that returned nothing left behind.
    """

    title: str
    value: Any
    agent: str = ""
    unit: str = ""
    event: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether it is a text, which may be Markdown."""
        return isinstance(self.value, str)


def newest_output(contents: Contents) -> Output | None:
    """Return what was produced last; None if nothing has been produced yet."""
    return next(_outputs(contents), None)


def _outputs(contents: Contents) -> Iterator[Output]:
    """What was produced, newest first. Without events, units are taken in their order."""
    tasks = {task.id: task for task in contents.tasks if task.id}
    methods = {method.name: method for method in contents.methods}
    for event in reversed(contents.events):
        if event.kind not in PRODUCING or event.is_internal:
            continue
        task, method = tasks.get(event.task_id), methods.get(event.subject)
        if event.kind == "task_completed" and task is not None:
            yield from _of_task(task)
        elif event.kind == "method_execution_finished" and method is not None:
            yield from _of_method(method, contents)
        elif event.text:
            yield _of_event(event, contents)
    for task in reversed(contents.tasks):
        yield from _of_task(task)
    for method in reversed(contents.methods):
        yield from _of_method(method, contents)


def _of_task(task: Task) -> Iterator[Output]:
    value = task.output if task.output_json is None else task.output_json
    if task.done and value not in (None, ""):
        yield Output(f"{task.position}. {task.title}", value, task.agent, unit=task.id)


def _of_method(method: Method, contents: Contents) -> Iterator[Output]:
    """What a method returned, else the state, since methods often write there and return nothing."""
    if not method.done:
        return
    if method.output not in (None, ""):
        yield Output(method.name, method.output, unit=method.name)
        return
    state = {name: value for name, value in (contents.flow_state or {}).items() if name != "id"}
    if state:
        yield Output(method.name, None, unit=method.name, state=state)


def _of_event(event: Event, contents: Contents) -> Output:
    title = event.subject or event.agent or contents.name
    return Output(title, event.text, event.agent if event.agent != title else "", event=event.kind)
