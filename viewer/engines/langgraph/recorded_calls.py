"""The calls of models and tools that a thread's checkpoints record, and what repeats a run or a thread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from viewer.engines.langgraph.channels import ChatMessage, ToolCall, message_of, messages_in
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence
from viewer.engines.langgraph.threads.rows import ANSWERS, call_in_message
from viewer.engines.plan import Action, Step
from viewer.engines.recorded_calls import (
    CallMessage,
    Failure,
    RecordedCall,
    RecordedRun,
    RecordedToolCall,
    RecordedTools,
    Reproduction,
    RequestedTool,
    Sources,
    Span,
    SpanSource,
    SpanStatus,
    failed_attempts,
    heading,
    literal,
    loaded,
)
from viewer.messages.catalog import gettext_noop as _
from viewer.redaction import MARKER
from viewer.stores.protocol import NO_CALL

GAPS = {
    "input": _("until the next turn"),
    "update": _("until the state was changed"),
    "fork": _("until the fork"),
}
WAITS = _("waiting for a person")


def spans(sources: Sources) -> list[Span]:
    """The spans of these checkpoints, sorted by start. Tasks of the last checkpoint may be unfinished."""
    known = [one for one in sources if one.created_at is not None and isinstance(one.contents, Contents)]
    found: list[Span] = []
    for before, after in pairwise(known):
        found += _step(before, after)
    if known:
        found += _unfinished(known[-1])
    return sorted(found, key=lambda span: span.start)


def _step(before: SpanSource, after: SpanSource) -> Iterator[Span]:
    """The spans between two checkpoints."""
    start, end = before.created_at, after.created_at
    assert start and end, "Checkpoints without a time are left out."
    if (label := GAPS.get(after.contents.source)) is not None:
        failed = [task for task in before.contents.tasks if task.status == "failed"]
        yield from (replace(_unit(before, task), status="failed", error=task.error) for task in failed)
        yield Span(f"gap-{after.checkpoint_id}", "gap", label, start, end)
        return
    for task in before.contents.tasks:
        if task.status != "done" or task.node.startswith("__"):
            continue
        unit = replace(_unit(before, task), end=end)
        yield unit
        if task.error:
            # The write of a failure stays when a later run of the task succeeds. Its time is not recorded.
            failed_at = start + (end - start) / 2
            failure = Failure(failed_at, failed_at, task.error)
            yield from (replace(one, is_estimated=True) for one in failed_attempts(unit, [failure], 0))
        if task.interrupts:
            yield Span(f"{unit.id}-wait", "wait", WAITS, start, end, unit.id, is_estimated=True)
        else:
            yield from _calls(unit, task, before.contents)


def _unfinished(last: SpanSource) -> Iterator[Span]:
    """The spans of the unfinished tasks of the newest checkpoint."""
    assert last.created_at, "Checkpoints without a time are left out."
    for task in last.contents.tasks:
        if task.status == "done" or task.node.startswith("__"):
            continue
        status: SpanStatus = "failed" if task.status == "failed" else "open"
        unit = replace(_unit(last, task), status=status, error=task.error)
        yield unit
        if task.status == "waiting":
            yield Span(f"{unit.id}-wait", "wait", WAITS, last.created_at, parent=unit.id, status="open")


def _unit(at: SpanSource, task: Task) -> Span:
    """The span of a task after a checkpoint, without its end."""
    assert at.created_at, "Checkpoints without a time are left out."
    return Span(
        f"{at.checkpoint_id}-{task.id}",
        "unit",
        task.node or task.id,
        at.created_at,
        checkpoint=at.checkpoint_id,
        is_estimated=True,
        unit_id=task.id,
    )


def _calls(unit: Span, task: Task, before: Contents) -> Iterator[Span]:
    """The spans of the model calls and tools whose results a task has written."""
    prompt = _conversation(before)
    found: list[Span] = []
    for write in task.writes:
        raw = write.value if isinstance(write.value, list) else [write.value]
        for number, one in enumerate(raw):
            message = next(iter(messages_in([one])), None)
            if message is None:
                continue
            span_id = f"{unit.id}-{write.channel}-{number}"
            if message.role == "assistant":
                found.append(_model_call(span_id, unit, message, one, prompt))
            elif message.role == "tool":
                found.append(_tool(span_id, unit, message, prompt))
            prompt = (*prompt, call_message(message))
    return _shared(unit, found)


def _model_call(
    span_id: str, unit: Span, message: ChatMessage, raw: Any, prompt: tuple[CallMessage, ...]
) -> Span:
    call = call_in_message(mapping(fields_of(raw, *ANSWERS)))
    asked = "\n".join(f"{one.name}({one.arguments})" for one in message.calls)
    answer = "\n".join(part for part in (message.text, asked) if part)
    span = replace(unit, id=span_id, kind="model", label="", parent=unit.id, prompt=prompt, answer=answer)
    span = replace(span, call_id=message.id)
    return replace(span, label=call.model, call=call) if call else span


def _tool(span_id: str, unit: Span, message: ChatMessage, prompt: tuple[CallMessage, ...]) -> Span:
    requested = (tool for one in reversed(prompt) for tool in one.tools if tool.id == message.answers_call)
    call = next(requested, None)
    status: SpanStatus = "failed" if message.is_error else "done"
    answer, error = ("", message.text) if message.is_error else (message.text, "")
    return replace(
        unit,
        id=span_id,
        kind="tool",
        label=message.name or (call.name if call else ""),
        parent=unit.id,
        status=status,
        answer=answer,
        error=error,
        arguments=call.arguments if call else None,
    )


def _shared(unit: Span, calls: list[Span]) -> Iterator[Span]:
    """The calls, one after the other, each with an equal part of the node's time."""
    if unit.end is None:
        return
    part = (unit.end - unit.start) / max(1, len(calls))
    start: datetime = unit.start
    for call in calls:
        yield replace(call, start=start, end=start + part)
        start += part


def _conversation(contents: Contents) -> tuple[CallMessage, ...]:
    """The messages of the first channel of the state that has messages."""
    for value in contents.channels.values():
        if messages := messages_in(value):
            return tuple(map(call_message, messages))
    return ()


# The usage is shown apart from what else a model reported.
_USAGE = ("token_usage", "usage", "usage_metadata")


def recorded_calls(contents: Contents) -> Iterator[RecordedCall]:
    """The calls whose answers are in the state, then those whose answers its tasks have written.

    An answer that several channels hold is one call.
    """
    seen = set[str]()
    state = list[CallMessage]()
    for name, value in contents.channels.items():
        conversation = list[CallMessage]()
        for call in _answered(messages_in(value), sequence(value), conversation, name):
            if call.id not in seen:
                seen.add(call.id)
                yield replace(call, part=f"messages:{name}:{call.sent}")
        state = state or conversation
    for task in contents.tasks:
        conversation = list(state)
        for write in task.writes:
            values = write.value if isinstance(write.value, list) else [write.value]
            found = [(one, message) for one in values if (message := message_of(one)) is not None]
            messages = [message for _one, message in found]
            answers = [one for one, _message in found]
            for call in _answered(messages, answers, conversation, f"{task.id} {write.channel}"):
                if call.id not in seen:
                    seen.add(call.id)
                    yield call


def _answered(
    messages: Sequence[ChatMessage], values: Sequence[Any], conversation: list[CallMessage], place: str
) -> Iterator[RecordedCall]:
    """The calls whose answers are among these messages, which are added to the conversation.

    ``values`` are the messages as they are stored. ``place`` names those that have no id.
    """
    for number, (message, value) in enumerate(zip(messages, values, strict=False)):
        sent, answer = len(conversation), call_message(message)
        conversation.append(answer)
        if message.role != "assistant":
            continue
        fields = mapping(fields_of(value, *ANSWERS))
        usage = call_in_message(fields) or NO_CALL
        reported = mapping(fields.get("response_metadata"))
        yield RecordedCall(
            id=message.id or f"{place} {number}",
            model=usage.model or message.model,
            conversation=conversation,
            sent=sent,
            answer=answer,
            reported={name: one for name, one in reported.items() if name not in _USAGE},
            usage=usage,
            agent=message.name,
            is_conversation=True,
        )


def call_message(message: ChatMessage) -> CallMessage:
    """The message in the shape that engines share."""
    tools = tuple(RequestedTool(call.name, call.values, call.id) for call in message.calls)
    return CallMessage(
        message.role, message.text, message.name, tools, message.answers_call, len(message.others)
    )


# The tool calls that the messages of a thread record.


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
                found.append(_recorded_call(source, task, message, requested))
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


def _recorded_call(
    source: SpanSource, task: Task, message: ChatMessage, requested: dict[str, ToolCall]
) -> RecordedToolCall:
    call = requested.get(message.answers_call)
    name = message.name or (call.name if call else "")
    arguments = call.values if call else {}
    return RecordedToolCall(task.node, name, arguments, source.created_at, message.text, message.is_error)


# Writes a Python script that repeats a fork, a resume or a new run with LangGraph itself.


# The copy of the store. A fork in the thread's own store would move the head of the thread.
COPY = "fork.sqlite"
_TITLES = {
    "fork": "Fork a thread with LangGraph, in a copy of its store.",
    "resume": "Continue a thread with LangGraph.",
    "run": "Run a graph with LangGraph.",
}


def script(what: Reproduction) -> str:
    """The script's source. A fork runs on a copy of the store; a resume or new run writes to the store."""
    store = what.source.rpartition("#")[0] or what.location
    # Objects cannot be written as Python source.
    objects = [name for name, value in what.state.items() if _holds_object(value)]
    values = {name: value for name, value in what.state.items() if name not in objects}
    lines = heading(replace(what, missing=(*what.missing, *objects)), _TITLES[what.kind])
    lines += [
        "import sqlite3",
        "",
        "from langgraph.checkpoint.sqlite import SqliteSaver",
        "from langgraph.types import Command",
        *loaded(what.entry_point, "graph")[:1],
        "",
        *loaded(what.entry_point, "graph")[2:],
        'if callable(graph) and not hasattr(graph, "stream") and not hasattr(graph, "compile"):',
        "    graph = graph()",
        'if hasattr(graph, "compile"):',
        "    graph = graph.compile()",
        "",
        *_store(what, store),
        "graph.checkpointer = SqliteSaver(connection)",
        f"config = {literal({'configurable': _configurable(what)})}",
    ]
    if values:
        lines += _update(what, values)
    lines += ["", f"result = graph.invoke({_given(what)}, config{_context(what)})", "print(result)"]
    return "\n".join([*lines, ""])


def _store(what: Reproduction, store: str) -> list[str]:
    if what.kind != "fork":
        return [f"connection = sqlite3.connect({store!r}, check_same_thread=False)"]
    return [
        "# A fork in the store itself would move the head of the thread.",
        f"connection = sqlite3.connect({COPY!r}, check_same_thread=False)",
        f'with sqlite3.connect("file:" + {store!r} + "?mode=ro", uri=True) as original:',
        "    original.backup(connection)",
        "# What its tasks wrote before, such as earlier answers, is not reused.",
        "connection.execute(",
        '    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_id = ?",',
        f"    ({what.run_key!r}, {what.checkpoint_id!r}),",
        ")",
        "connection.commit()",
    ]


def _configurable(what: Reproduction) -> dict[str, Any]:
    own = what.settings.get("configurable", {})
    if what.kind != "fork":
        return {"thread_id": what.run_key or "reproduced", **own}
    return {"thread_id": what.run_key, "checkpoint_ns": "", "checkpoint_id": what.checkpoint_id, **own}


def _context(what: Reproduction) -> str:
    context = what.settings.get("context", {})
    return f", context={literal(dict(context))}" if context else ""


def _update(what: Reproduction, values: dict[str, Any]) -> list[str]:
    """The lines that write the edited state as a checkpoint."""
    lines = ["", f"values = {literal(values)}"]
    if replaced := [name for name in what.replace if name in values]:
        lines += [
            "from langgraph.types import Overwrite",
            "",
            f"for name in {literal(replaced)}:",
            "    values[name] = Overwrite(values[name])",
        ]
    as_node = f", as_node={what.as_node!r}" if what.as_node else ""
    return [*lines, f"config = graph.update_state(config, values{as_node})"]


def _given(what: Reproduction) -> str:
    """The source of the argument of ``invoke``: an input, answers, or None to continue."""
    if what.kind == "run":
        return literal(dict(what.inputs))
    if not what.answers:
        return "None"
    answers = dict(what.answers)
    return f"Command(resume={literal(answers[''] if set(answers) == {''} else answers)})"


def _holds_object(value: Any) -> bool:
    if isinstance(value, dict):
        return "__type__" in value or "__opaque__" in value or any(map(_holds_object, value.values()))
    return isinstance(value, list) and any(map(_holds_object, value))


def recorded_run(sources: Sources) -> RecordedRun | None:
    """The turns of a thread with the answers to its interrupts, and its state in the end.

    None for a thread with a fork, an edited state, or an input that holds an object. Messages of the state
    are their roles and texts. Values of the state that hold an object or a secret are not expected.
    """
    known = [one.contents for one in sources if isinstance(one.contents, Contents)]
    turns = list[dict[str, Any]]()
    for contents in known:
        if contents.source in ("fork", "update"):
            return None
        if contents.source == "input":
            given = {name: _input(value) for name, value in mapping(contents.given_input).items()}
            if not given or _holds_object(given):
                return None
            turns.append({"input": given, "answers": {}})
        for task in contents.tasks if turns else ():
            if _holds_object(list(task.answers)):
                return None
            turns[-1]["answers"].setdefault(task.node, []).extend(task.answers)
    if not turns or known[0].source != "input":
        return None
    expected = {name: _expected(value) for name, value in known[-1].channels.items()}
    return RecordedRun(turns, {name: value for name, value in expected.items() if value is not None})


def _input(value: Any) -> Any:
    """The value as a person would write it: messages are their roles and contents."""
    messages = messages_in(value)
    if not messages or any(one.others or one.calls or one.answers_call for one in messages):
        return value
    return [{"role": one.role, "content": one.text} for one in messages]


def _expected(value: Any) -> Any:
    if messages := messages_in(value):
        found: Any = [[one.role, one.text] for one in messages]
    else:
        found = None if _holds_object(value) else value
    return None if MARKER in str(found) else found
