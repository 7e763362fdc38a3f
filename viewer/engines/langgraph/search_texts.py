"""The texts of a LangGraph checkpoint that the search finds."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.contents.conversation import ChatMessage, messages_in
from viewer.engines.langgraph.tabs import as_text
from viewer.engines.search_texts import SearchText, TextKind

_START = "__start__"


def search_texts(contents: Contents) -> Iterator[SearchText]:
    """The texts of a checkpoint, each with the tab that shows it."""
    yield SearchText(TextKind.NAME, contents.thread_id, "tab=metadata")
    started_with = contents.control_channels.get(_START)
    if started_with is not None:
        yield SearchText(TextKind.INPUT, as_text(started_with), "tab=state")
    # The writes come before the state, since only they name the node that wrote a message.
    for task in contents.tasks:
        yield from _task(task)
    for name, value in contents.channels.items():
        yield from _value(TextKind.STATE, name, value, "tab=state", "tab=messages", "")


def _task(task: Task) -> Iterator[SearchText]:
    for write in task.writes:
        if not write.is_control:
            yield from _value(
                TextKind.OUTPUT, write.channel, write.value, "tab=writes", "tab=writes", task.node
            )
    for interrupt in task.interrupts:
        yield SearchText(TextKind.MESSAGE, as_text(interrupt.value), "tab=next", task.node)
    for answer in task.answers:
        yield SearchText(TextKind.INPUT, as_text(answer), "tab=writes", task.node)
    if task.error:
        yield SearchText(TextKind.ERROR, task.error, "tab=next", task.node)


def _value(
    kind: TextKind, name: str, value: Any, query_string: str, query_of_messages: str, unit: str
) -> Iterator[SearchText]:
    """The messages of a channel's value, or the value as one text."""
    messages = messages_in(value if isinstance(value, list) else [value])
    if not messages:
        yield SearchText(kind, f"{name}: {as_text(value)}", query_string, unit)
    for message in messages:
        yield from _message(message, query_of_messages, unit)


def _message(message: ChatMessage, query_string: str, unit: str) -> Iterator[SearchText]:
    is_tool = message.role in ("tool", "function")
    kind = TextKind.ERROR if message.is_error else TextKind.TOOL if is_tool else TextKind.MESSAGE
    if message.text:
        text = f"{message.name}: {message.text}" if is_tool and message.name else message.text
        yield SearchText(kind, text, query_string, unit, model=message.model)
    for call in message.calls:
        text = f"{call.name}: {call.arguments}"
        yield SearchText(TextKind.TOOL, text, query_string, unit, model=message.model)
