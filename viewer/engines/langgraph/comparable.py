"""What comparisons, the search and lists of runs read of a LangGraph checkpoint."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.contents import Part, SearchText, Section, TextKind, parts_of, settings_of
from viewer.engines.langgraph.channels import ChatMessage, messages_in
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.plan import kickoff_inputs
from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence
from viewer.engines.langgraph.tabs import as_text, readable
from viewer.engines.langgraph.threads.rows import calls_in
from viewer.messages.catalog import gettext_noop as _
from viewer.stores.model_calls import ModelCall

# The parts of a LangGraph checkpoint that a comparison aligns.


# The metadata that the engine itself writes. All other metadata are settings of the run.
_OWN_METADATA = {
    "source",
    "step",
    "parents",
    "writes",
    "run_id",
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
}


def comparable(contents: Contents, steps: Sequence[Contents] = ()) -> Iterator[Part]:
    """The inputs, metadata, state by channel, writes of nodes, messages, models and calls of each tool."""
    for one in (*steps, contents):
        yield from parts_of(Section.INPUTS, _each_readable(kickoff_inputs(one, "")))
    channels = contents.channels
    conversations = {name: found for name, value in channels.items() if (found := messages_in(value))}
    metadata = {name: value for name, value in contents.metadata.items() if name not in _OWN_METADATA}
    yield from parts_of(Section.SETTINGS, _each_readable(metadata))
    for name, placeholder in contents.unreadable.items():
        section = Section.STATE if name == "state" else Section.SETTINGS
        yield Part(section, name, name, readable(placeholder))
    for name in conversations:
        models = _models(channels[name])
        yield from settings_of(name, name, [(_("model"), models[0] if len(models) == 1 else models)])
    state = {name: value for name, value in channels.items() if name not in conversations}
    yield from parts_of(Section.STATE, _each_readable(state))
    yield from _outputs((*steps, contents))
    for name, messages in conversations.items():
        yield Part(Section.MESSAGES, name, name, [_plain(message) for message in messages])
    yield from _calls([message for messages in conversations.values() for message in messages])


def _each_readable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name. A name may be that of a placeholder's field, so the mapping itself is not one."""
    return {name: readable(value) for name, value in values.items()}


def followed_parts(contents: Contents) -> Iterator[Part]:
    """The values of the channels. A conversation is a list of roles and contents."""
    for name, value in contents.channels.items():
        messages = messages_in(value)
        shown = [_plain(message) for message in messages] if messages else readable(value)
        yield Part(Section.STATE, name, name, shown)


def model_calls(contents: Contents) -> Sequence[ModelCall]:
    """The calls that the messages of the state record."""
    return list(calls_in(contents.checkpoint).values())


def _models(value: Any) -> list[str]:
    """The models that wrote a channel's messages, each once."""
    fields = [mapping(fields_of(one, "AIMessage", "AIMessageChunk")) for one in sequence(value)]
    names = [mapping(one.get("response_metadata")).get("model_name") for one in fields]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _outputs(steps: Sequence[Contents]) -> Iterator[Part]:
    """The writes of nodes: one part for each time that a node ran."""
    for task in (task for step in steps for task in step.tasks if task.status == "done"):
        writes = _writes(task)
        if task.node and writes:
            yield Part(Section.OUTPUTS, task.node, task.node, writes)


def _writes(task: Task) -> Any:
    """A task's writes to the state, by channel."""
    writes = {one.name: one.value for one in task.writes if not one.is_control}
    return {
        name: [_plain(message) for message in messages]
        if (messages := messages_in(value))
        else readable(value)
        for name, value in writes.items()
    }


def _plain(message: ChatMessage) -> dict[str, Any]:
    """A message without its ids, which differ whenever a model is called."""
    plain: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.name:
        plain["name"] = message.name
    if message.calls:
        plain["calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.calls]
    return plain


def _calls(messages: Sequence[ChatMessage]) -> Iterator[Part]:
    calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
    made: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.calls:
            made[call.id] = {"arguments": call.arguments}
            calls[call.name].append(made[call.id])
        if message.answers_call in made:
            made[message.answers_call]["result"] = message.text
    for name, found in calls.items():
        yield Part(Section.TOOLS, name, name, found)


# The texts of a LangGraph checkpoint that the search finds.


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


# Reads what a list of runs shows from a checkpoint's contents.


def run_inputs(contents: Contents) -> Mapping[str, Any]:
    """The user's first message under an empty name, or else the inputs of the graph by name."""
    start = mapping(mapping(contents.checkpoint.get("channel_values")).get("__start__"))
    given = start or contents.channels
    for value in given.values():
        text = _first_user_text(value)
        if text:
            return {"": text}
    return start


def edited_inputs(before: Contents, after: Contents, names: Collection[str]) -> Mapping[str, Any]:
    """The first message of the user that an edit changed, under an empty name, or else the edited values."""
    found = {name: after.channels[name] for name in names if name in after.channels}
    start = mapping(mapping(before.checkpoint.get("channel_values")).get("__start__"))
    for name, value in found.items():
        former = {*_user_texts(before.channels.get(name)), *_user_texts(start.get(name))}
        texts = _user_texts(value)
        if edited := next((text for text in texts if text not in former), ""):
            return {"": edited}
        if texts:
            return {}
    return found


def _first_user_text(value: Any) -> str:
    """The text of the user's first message in a conversation; empty for any other value."""
    return next(iter(_user_texts(value)), "")


def _user_texts(value: Any) -> list[str]:
    """The texts of the user's messages in a conversation; none for any other value."""
    texts = [one.text for one in messages_in(value) if one.role == "user" and one.text]
    # LangChain also accepts pairs of a role and a text.
    pairs = [one for one in map(sequence, sequence(value)) if len(one) == 2 and one[0] in ("user", "human")]
    return texts or [str(text) for _role, text in pairs]
