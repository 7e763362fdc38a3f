"""The tool calls that the messages of a thread record."""

from collections.abc import Iterator, Sequence

from viewer.engines.langgraph.channels import ChatMessage, ToolCall, messages_in
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.plan import Step
from viewer.engines.spans import Sources, SpanSource
from viewer.engines.tool_calls import RecordedToolCall, RecordedTools


def recorded_tools(sources: Sources, steps: Sequence[Step]) -> RecordedTools:
    """The calls that tasks made after the first of these checkpoints, and those that it waits for.

    A fork may run any node again, so the calls do not depend on ``steps``.
    """
    known = [one for one in sources if isinstance(one.contents, Contents)]
    if not known:
        return RecordedTools()
    requested = {call.id: call for call in _requested(known[0].contents)}
    pending, found = dict(requested), list[RecordedToolCall]()
    for source in known:
        for task in source.contents.tasks:
            if task.status == "done":
                for message in _written(task):
                    requested |= {call.id: call for call in message.calls}
                    if message.role == "tool":
                        pending.pop(message.answers_call, None)
                        found.append(_answered(source, task, message, requested))
    waiting = [RecordedToolCall("", call.name, call.values, None, None) for call in pending.values()]
    return RecordedTools([*found, *waiting])


def _requested(contents: Contents) -> Iterator[ToolCall]:
    """The calls that the messages of the state request and that none of them answers."""
    for value in contents.channels.values():
        messages = messages_in(value)
        answered = {one.answers_call for one in messages}
        yield from (call for one in messages[-1:] for call in one.calls if call.id not in answered)


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
