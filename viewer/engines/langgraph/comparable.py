"""The parts of a LangGraph checkpoint that a comparison aligns."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.comparable import Part, Section, parts_of, settings_of
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.contents.conversation import ChatMessage, messages_in
from viewer.engines.langgraph.format.super_steps import fields_of, mapping, sequence
from viewer.engines.langgraph.planning.editing import kickoff_inputs
from viewer.engines.langgraph.tabs import readable
from viewer.engines.langgraph.threads.usage import calls_in
from viewer.messages.marking import gettext_noop as _
from viewer.stores.model_calls import ModelCall

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
