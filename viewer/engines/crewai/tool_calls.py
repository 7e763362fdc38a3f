"""The tool calls that the event record of a checkpoint holds."""

from collections.abc import Iterator, Sequence

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.recorded_events import Event, arguments_in
from viewer.engines.plan import Action, Step
from viewer.engines.spans import Sources
from viewer.engines.tool_calls import RecordedToolCall, RecordedTools, plain_name

STARTED, ENDED = "tool_usage_started", ("tool_usage_finished", "tool_usage_error")
MAY_RUN = (Action.AGAIN, Action.RUNS, Action.MAY)


def recorded_tools(sources: Sources, steps: Sequence[Step], *, is_edited: bool = False) -> RecordedTools:
    """The calls of the last attempts of these steps; of a flow or an agent, those after the first source.

    The last source has the events of all others.
    """
    known = [one.contents for one in sources if isinstance(one.contents, Contents)]
    if not known:
        return RecordedTools()
    contents, record = known[0], known[-1]
    running = {step.unit for step in steps if step.action in MAY_RUN}
    if contents.kind == "crew":
        calls = [call for call in _calls(_last_attempts(record.events)) if call.unit in running]
    else:
        before = {event.id for event in contents.events}
        calls = list(_calls([one for one in record.events if one.id not in before]))
    return RecordedTools(calls, _others(contents, running, {call.tool for call in calls}))


def _last_attempts(events: Sequence[Event]) -> list[Event]:
    """The events without those of a task that were followed by another start of it."""
    kept: list[Event] = []
    for event in events:
        if event.kind == "task_started" and event.task_id:
            kept = [one for one in kept if one.task_id != event.task_id]
        kept.append(event)
    return kept


def _calls(events: Sequence[Event]) -> Iterator[RecordedToolCall]:
    ends = {event.started: event for event in events if event.kind in ENDED and event.started}
    for event in events:
        if event.kind == STARTED:
            end = ends.get(event.id)
            result, is_error = (end.text, end.is_failure) if end else (None, False)
            arguments = arguments_in(event.arguments)
            yield RecordedToolCall(event.task_id, event.subject, arguments, event.at, result, is_error)


def _others(contents: Contents, running: set[str], recorded: set[str]) -> list[str]:
    """The names of the other tools that running tasks and their agents have; of all agents if not a crew."""
    tasks = [task for task in contents.tasks if task.id in running]
    roles = {task.agent for task in tasks}
    agents = [agent for agent in contents.agents if agent.role in roles or contents.kind != "crew"]
    names = [name for task in tasks for name in task.tools] + [name for one in agents for name in one.tools]
    known = {plain_name(name) for name in recorded}
    return list({key: name for name in names if (key := plain_name(name)) not in known}.values())
