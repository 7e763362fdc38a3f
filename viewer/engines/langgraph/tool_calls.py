"""The tool calls that the messages of a thread record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.langgraph.channels import ChatMessage, ToolCall, messages_in
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.super_steps import mapping, sequence
from viewer.engines.plan import Action, Step
from viewer.engines.spans import Sources, SpanSource
from viewer.engines.tool_calls import RecordedToolCall, RecordedTools


def recorded_tools(sources: Sources, steps: Sequence[Step], *, is_edited: bool = False) -> RecordedTools:
    """The calls that tasks made after the first of these checkpoints, and those that it waits for.

    A fork may run any node again, so ``steps`` only say whether the finished tasks of the first one are kept.
    """
    known = [one for one in sources if isinstance(one.contents, Contents)]
    if not known:
        return RecordedTools()
    keeps_finished = any(step.action is Action.KEPT for step in steps)
    known = _repeated(known, keeps_finished, is_edited)
    # Nodes may write messages that they have read, such as those of a subgraph.
    answered, pending = _in_state(known[0].contents)
    requested, found = dict(pending), list[RecordedToolCall]()
    for source in known:
        messages = [
            (task, message)
            for task in source.contents.tasks
            if task.status == "done"
            for message in _written(task)
        ]
        for task, message in messages:
            requested |= {call.id: call for call in message.calls}
            if message.role != "tool" or message.answers_call in answered:
                continue
            answered.add(message.answers_call)
            pending.pop(message.answers_call, None)
            if source is not known[0] or not keeps_finished:
                found.append(_answered(source, task, message, requested))
    waiting = [RecordedToolCall("", call.name, call.values, None, None) for call in pending.values()]
    return RecordedTools([*found, *waiting])


def _repeated(sources: Sources, keeps_finished: bool, is_edited: bool) -> list[SpanSource]:
    """The sources without those of subgraphs that other checkpoints called, and that do not begin again.

    A subgraph of a task that has not finished continues where it was, unless the state is edited.
    """
    first, ids = sources[0].contents, {one.checkpoint_id for one in sources}
    assert isinstance(first, Contents)
    left = [one.id for one in first.tasks if (keeps_finished if one.status == "done" else not is_edited)]
    found = []
    for one in sources:
        inner = one.contents
        assert isinstance(inner, Contents)
        called_from = {outer: at for outer, at in inner.parents.items() if outer != inner.namespace}
        is_own = not called_from or inner.namespace == first.namespace
        is_left = called_from.get(first.namespace) == first.id and any(
            task in inner.namespace for task in left
        )
        if is_own or (ids.intersection(map(str, called_from.values())) and not is_left):
            found.append(one)
    return found


def tools_of_code(report: Mapping[str, Any], *, is_edited: bool) -> list[str]:
    """The tools of the nodes that may run, in the report of a preflight check."""
    nodes = [mapping(one) for one in sequence(report.get("tools"))]
    running = [one for one in nodes if is_edited or one.get("may_run")]
    return [str(name) for one in running for name in sequence(one.get("tools"))]


def _in_state(contents: Contents) -> tuple[set[str], dict[str, ToolCall]]:
    """The ids of the answered calls, and the unanswered calls of the last message that requests any."""
    answered, pending = set[str](), dict[str, ToolCall]()
    for value in contents.channels.values():
        messages = messages_in(value)
        answered |= {one.answers_call for one in messages if one.answers_call}
        last = next((one.calls for one in reversed(messages) if one.calls), ())
        pending |= {call.id: call for call in last}
    return answered, {key: call for key, call in pending.items() if key not in answered}


def _written(task: Task) -> Iterator[ChatMessage]:
    for write in task.writes:
        for one in write.value if isinstance(write.value, list) else [write.value]:
            yield from messages_in([one])


def _answered(
    source: SpanSource, task: Task, message: ChatMessage, requested: dict[str, ToolCall]
) -> RecordedToolCall:
    call = requested.get(message.answers_call)
    name = message.name or (call.name if call else "")
    arguments = call.values if call else {}
    return RecordedToolCall(task.node, name, arguments, source.created_at, message.text, message.is_error)
