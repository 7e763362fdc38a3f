"""What pages, comparisons, the search and the terminal show of a LangGraph checkpoint."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewer.engines.contents import Part, SearchText, Section, Tab, TextKind, part_id, parts_of, settings_of
from viewer.engines.langgraph.channels import (
    ChangedChannel,
    ChatMessage,
    as_written,
    message_of,
    messages_in,
    text_of_typed,
)
from viewer.engines.langgraph.contents import Contents, Interrupt, Task, kickoff_inputs
from viewer.engines.langgraph.super_steps import RETURN, fields_of, is_opaque, mapping, sequence
from viewer.engines.langgraph.threads.rows import calls_in
from viewer.messages.catalog import gettext_noop as _
from viewer.stores.protocol import ModelCall

# The tabs of the checkpoint page that LangGraph adds.


TABS = (
    Tab(
        "state",
        _("State"),
        "engines/langgraph/_state.html",
        compares_with="parent",
        shows_failure=True,
        is_shareable=True,
    ),
    Tab(
        "messages",
        _("Messages"),
        "engines/langgraph/_messages.html",
        compares_with="parent",
        is_shareable=True,
    ),
    Tab("writes", _("Writes"), "engines/langgraph/_writes.html", shows_failure=True, is_shareable=True),
    Tab("next", _("Next"), "engines/langgraph/_next.html", shows_failure=True, is_shareable=True),
    Tab("graph", _("Graph"), "engines/langgraph/graph/_graph.html", shows_unit_graph=True),
    Tab("subgraphs", _("Subgraphs"), "engines/langgraph/_subgraphs.html", shows_called_runs=True),
    Tab("metadata", _("Metadata"), "engines/langgraph/_metadata.html", shows_lineage=True),
)
ORDER = ("state", "messages", "writes", "next", "graph", "subgraphs", "metadata", "raw")
# The most characters of a value on a page, and of a value on one line.
MAX_SHOWN, MAX_LINE = 4_000, 100
# How many of the newest changes of a channel a page shows.
MAX_CHANGES = 20


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """How a step changed a channel.

    ``kind`` is ``same``, ``new``, ``changed``, ``appended``, ``removed`` or ``unknown``. ``added`` are items
    that were appended to a list. ``rebuilt`` is set if the value was rebuilt from changes: as ``messages``,
    as a ``list``, or ``unknown`` if only the changes since the value ``after`` are known.
    """

    channel: str
    kind: str
    before: str
    after: str
    added: tuple[str, ...] = ()
    count_before: int = 0
    count_after: int = 0
    rebuilt: str = ""
    changes: tuple[str, ...] = ()
    change_count: int = 0

    @property
    def part(self) -> str:
        """The id of the channel's part."""
        return part_id(Section.STATE, self.channel)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that holds a conversation. ``new`` is the number of messages that this step added."""

    name: str
    messages: tuple[ChatMessage, ...]
    new: int

    @property
    def part(self) -> str:
        """The id of the channel's part."""
        return part_id(Section.STATE, self.name)

    @property
    def old(self) -> int:
        """The number of messages before this step."""
        return len(self.messages) - self.new

    @property
    def tokens(self) -> int:
        """The tokens of all messages that record them."""
        return sum(message.tokens or 0 for message in self.messages)


def is_tab_empty(tab: str, contents: Contents) -> bool:
    """Return whether a tab has nothing to show. The graph is known only when it is drawn."""
    match tab:
        case "state":
            values = (contents.channels, contents.changed_channels, contents.control_channels)
            return not any(values) and not contents.opaque and not contents.is_waited_for
        case "messages":
            return not any(map(messages_in, contents.channels.values()))
        case "writes":
            return not contents.tasks and not contents.given
        case "next":
            return not any(tab_context(tab, contents, None).values())
        case "graph":
            return contents.kind == "unknown"
    return False


def tab_context(tab: str, contents: Contents, before: Contents | None) -> dict[str, Any]:
    """A tab's context in addition to ``contents``. ``before`` is the parent; None if it cannot be read."""
    match tab:
        case "state":
            return {
                "changes": changes(contents, before),
                "control": shown_values(contents.control_channels),
                "pending": [
                    _shown_task(task) for task in contents.tasks if task.status in ("waiting", "failed")
                ],
            }
        case "messages":
            return {"conversations": conversations(contents, before)}
        case "writes":
            given = [(one.name, shown(one.value)) for one in contents.given]
            return {"tasks": [_shown_task(task) for task in contents.tasks], "given": given}
        case "next":
            pending = [_shown_task(task) for task in contents.tasks if task.status != "done"]
            ran = [task.node for task in contents.tasks if task.status == "done"]
            continued = [node for node in ran if node and not node.startswith("__")]
            return {"following": contents.next_nodes, "pending": pending, "continued": continued}
        case "metadata":
            versions = mapping(contents.checkpoint.get("channel_versions"))
            return {"metadata": shown_values(contents.metadata), "versions": shown_values(versions)}
    return {}


def shown(value: Any) -> str:
    """A value as a text of bounded length."""
    text = as_text(value)
    if not isinstance(value, str) and len(text) > MAX_LINE:
        text = json.dumps(readable(value), ensure_ascii=False, indent=2)
    return _shortened(text, MAX_SHOWN)


def as_text(value: Any) -> str:
    """A value as a text: a text, date or the like as it is, anything else as JSON on one line."""
    found = readable(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def preview(value: Any) -> str:
    """A value on one short line."""
    return _shortened(" ".join(as_text(value).split()), MAX_LINE)


def _shortened(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[:max_length]}…"


def readable(value: Any) -> Any:
    """A decoded value with its objects written as ``Class: fields``."""
    if isinstance(value, dict):
        if is_opaque(value):
            return f"({value['__opaque__']}, {value['encoding']}, {value['size']} bytes)"
        if (text := text_of_typed(value)) is not None:
            return text
        if set(value) == {"__type__", "fields"}:
            name = str(value["__type__"]).rpartition(".")[2]
            return {name: readable(value["fields"])}
        return {key: readable(item) for key, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list) else value


def shown_values(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values as texts."""
    return [(name, shown(value)) for name, value in values.items()]


def changes(contents: Contents, before: Contents | None) -> list[ChannelChange]:
    """How this step changed each channel of the state, changed channels first."""
    old, new = (before.channels if before else {}), contents.channels
    partial = {name: one for name, one in contents.changed_channels.items() if name not in new}
    found = [
        _marked(_change(name, old, new), contents.changed_channels.get(name))
        for name in dict.fromkeys((*new, *old))
        if name not in partial
    ]
    found += [_unknown(name, one) for name, one in partial.items()]
    return sorted(found, key=lambda change: change.kind == "same")


def _marked(change: ChannelChange, rebuilt: ChangedChannel | None) -> ChannelChange:
    """The change, with how the value after it was rebuilt."""
    if rebuilt is None:
        return change
    return replace(change, rebuilt=rebuilt.how, change_count=len(rebuilt.writes))


def _unknown(name: str, known: ChangedChannel) -> ChannelChange:
    """The change of a channel with an unknown value: the last known value and the newest writes."""
    newest = tuple(shown(write) for write in known.writes[-MAX_CHANGES:])
    after = "" if known.base is None else shown(known.base)
    return ChannelChange(
        name, "unknown", "", after, rebuilt="unknown", changes=newest, change_count=len(known.writes)
    )


def _change(name: str, old: dict[str, Any], new: dict[str, Any]) -> ChannelChange:
    if name not in new:
        return ChannelChange(name, "removed", shown(old[name]), "")
    after = new[name]
    if name not in old:
        return ChannelChange(name, "new", "", shown(after))
    before = old[name]
    if before == after:
        count = len(before) if isinstance(before, list) and len(shown(before)) > MAX_LINE else 0
        return ChannelChange(name, "same", preview(before), "", count_before=count)
    if isinstance(before, list) and isinstance(after, list) and before and after[: len(before)] == before:
        added = tuple(_appended(item) for item in after[len(before) :])
        return ChannelChange(name, "appended", shown(before), shown(after), added, len(before), len(after))
    return ChannelChange(name, "changed", shown(before), shown(after))


def _appended(item: Any) -> str:
    """The text of an item that a step added to a list. A message is shown with its role."""
    message = message_of(item)
    return (
        _shortened(f"{message.role}: {message.text}", MAX_SHOWN) if message and message.text else shown(item)
    )


def conversations(contents: Contents, before: Contents | None) -> list[Channel]:
    """The channels that hold messages."""
    old, found = (before.channels if before else {}), []
    for name, value in contents.channels.items():
        if messages := messages_in(value):
            known = messages_in(old.get(name))
            same = next(
                (at for at, (one, other) in enumerate(zip(known, messages, strict=False)) if one != other),
                min(len(known), len(messages)),
            )
            found.append(Channel(name, tuple(messages), len(messages) - same))
    return found


def _shown_task(task: Any) -> dict[str, Any]:
    """A task with its values as texts."""
    return {
        "id": task.id,
        "node": task.node,
        "status": task.status,
        "error": task.error,
        "writes": [(write.name, shown(write.value)) for write in task.writes if not write.is_control],
        "control": [write.channel for write in task.writes if write.is_control],
        "interrupts": [(interrupt.id, shown(interrupt.value)) for interrupt in task.interrupts],
        "answers": [shown(answer) for answer in task.answers],
    }


# The contents of a LangGraph checkpoint for the terminal.


def info(contents: Contents, first: Contents | None = None) -> dict[str, Any]:
    """The contents as plain values."""
    return {
        "thread_id": contents.thread_id,
        "checkpoint_ns": contents.namespace,
        "checkpoint_id": contents.id,
        "parent_checkpoint_id": contents.parent_id or None,
        "source": contents.source,
        "step": contents.step,
        "unreadable": sorted(contents.unreadable),
        "state": as_written(contents.channels),
        "next": contents.next_nodes,
        "tasks": [
            {
                "id": task.id,
                "node": task.node,
                "status": task.status,
                "writes": [
                    {"channel": write.channel, "value": as_written(write.value)} for write in task.writes
                ],
                "interrupts": [_interrupt(one, task) for one in task.interrupts],
                "answers": as_written(list(task.answers)),
                "error": task.error or None,
            }
            for task in contents.tasks
        ],
        "given": [{"channel": one.channel, "value": as_written(one.value)} for one in contents.given],
    }


def _interrupt(one: Interrupt, task: Task) -> dict[str, Any]:
    """An interrupt, whether a person has yet to answer it, and the schema of its answer, if it has one."""
    found = {"id": one.id, "value": as_written(one.value), "is_pending": task.status == "waiting"}
    return found if one.schema is None else {**found, "response_schema": one.schema}


def info_lines(contents: Contents, first: Contents | None = None) -> Iterator[str]:
    """The contents as lines."""
    for name, placeholder in contents.unreadable.items():
        yield f"{name} not decoded: {shown(placeholder)}"
    step = "-" if contents.step is None else contents.step
    yield f"source: {contents.source or 'unknown'}, step: {step}"
    for name, value in contents.channels.items():
        yield f"{name}: {' '.join(shown(value).split())[:200]}"
    if contents.next_nodes:
        yield f"next: {', '.join(contents.next_nodes)}"
    for task in contents.tasks:
        name = task.node or task.id
        asked = "; ".join(_line(one.value) for one in task.interrupts)
        if task.status != "done":
            yield f"{name} {task.status}: {task.error or asked}"[:300]
        elif asked:
            yield f"{name} asked: {asked}"[:300]
        elif returned := [write for write in task.writes if write.channel == RETURN]:
            yield f"{name} returned: {_line(returned[-1].value)}"[:300]
        for answer in task.answers:
            yield f"{name} was answered: {_line(answer)}"[:300]
    for one in contents.given:
        yield f"given with the command: {one.name}: {_line(one.value)}"[:300]


def _line(value: Any) -> str:
    return " ".join(shown(value).split())


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
        yield from parts_of(Section.INPUTS, _each_readable(kickoff_inputs(one)))
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


def search_texts(contents: Contents) -> Iterator[SearchText]:
    """The texts of a checkpoint, each with the tab that shows it."""
    yield SearchText(TextKind.NAME, contents.thread_id, "tab=metadata")
    if contents.given_input is not None:
        yield SearchText(TextKind.INPUT, as_text(contents.given_input), "tab=state")
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
    start = mapping(contents.given_input)
    given = start or contents.channels
    for value in given.values():
        if text := next(iter(_user_texts(value)), ""):
            return {"": text}
    return start


def edited_inputs(before: Contents, after: Contents, names: Collection[str]) -> Mapping[str, Any]:
    """The first message of the user that an edit changed, under an empty name, or else the edited values."""
    found = {name: after.channels[name] for name in names if name in after.channels}
    start = mapping(before.given_input)
    for name, value in found.items():
        former = {*_user_texts(before.channels.get(name)), *_user_texts(start.get(name))}
        texts = _user_texts(value)
        if edited := next((text for text in texts if text not in former), ""):
            return {"": edited}
        if texts:
            return {}
    return found


def _user_texts(value: Any) -> list[str]:
    """The texts of the user's messages in a conversation; none for any other value."""
    texts = [one.text for one in messages_in(value) if one.role == "user" and one.text]
    # LangChain also accepts pairs of a role and a text.
    pairs = [one for one in map(sequence, sequence(value)) if len(one) == 2 and one[0] in ("user", "human")]
    return texts or [str(text) for _role, text in pairs]
