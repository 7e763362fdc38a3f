"""The spans of a branch of a thread, from its checkpoints and the writes of their tasks.

LangGraph records when a super-step ended, but not when a node began or called a model. So the span of a node
has the times of its super-step, and the calls of a node divide that time equally.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from viewer.engines.langgraph.channels import ChatMessage, messages_in
from viewer.engines.langgraph.contents import Contents, Task
from viewer.engines.langgraph.recorded_calls import call_message
from viewer.engines.langgraph.super_steps import fields_of, mapping
from viewer.engines.langgraph.threads.rows import ANSWERS, call_in_message
from viewer.engines.recorded_calls import CallMessage
from viewer.engines.spans import (
    Failure,
    Sources,
    Span,
    SpanSource,
    SpanStatus,
    failed_attempts,
)
from viewer.messages.catalog import gettext_noop as _

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
