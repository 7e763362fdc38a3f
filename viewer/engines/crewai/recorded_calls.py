"""The model calls that the event record of a checkpoint holds."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.recorded_events import Event, arguments_in, listed, mapping, text
from viewer.engines.crewai.spans import spans
from viewer.engines.recorded_calls import CallMessage, OfferedTool, RecordedCall, RequestedTool
from viewer.engines.spans import Span, SpanSource

# What the events of a call record of its request, and of the answer.
PARAMETERS = (
    *("temperature", "top_p", "max_tokens", "seed", "stop_sequences"),
    *("frequency_penalty", "presence_penalty", "n", "stream"),
)
REPORTED = ("finish_reason", "call_type", "response_id")
# Precedes the output in an answer to the engine's own prompt.
FINAL = "Final Answer:"


def recorded_calls(contents: Contents) -> Iterator[RecordedCall]:
    """The model calls of the checkpoint and its ancestors, oldest first."""
    by_id = {event.id: event for event in contents.events}
    ends = {event.started: event for event in contents.events if event.started}
    for span in spans([SpanSource("", None, contents)]):
        if span.call_id:
            yield _recorded(span, by_id[span.call_id], ends.get(span.call_id))


def _recorded(span: Span, started: Event, ended: Event | None) -> RecordedCall:
    request, answer = started.recorded, _answer(span, ended.recorded.get("response") if ended else None)
    result: Mapping[str, Any] = ended.recorded if ended else {}
    # Old versions record the messages only with the answer.
    messages = request.get("messages") or result.get("messages")
    return RecordedCall(
        id=span.call_id,
        model=started.model or span.call.model,
        conversation=tuple(_messages(messages)),
        answer=answer,
        tools=tuple(_offered(one) for one in listed(request.get("tools")) if isinstance(one, dict)),
        parameters={name: request[name] for name in PARAMETERS if request.get(name) not in (None, [])},
        reported={name: result[name] for name in REPORTED if result.get(name) is not None},
        usage=span.call,
        agent=span.agent,
        start=span.start,
        end=span.end,
        error=span.error,
        part=f"outputs:{started.task_id}" if started.task_id else "",
        before_result=FINAL,
    )


def _messages(value: Any) -> Iterator[CallMessage]:
    if text(value):
        yield CallMessage("user", text(value))
    for item in listed(value):
        if isinstance(item, dict):
            written, other_parts = _content(item.get("content"))
            yield CallMessage(
                text(item.get("role")),
                written,
                text(item.get("name")),
                tuple(_requested(item.get("tool_calls"))),
                text(item.get("tool_call_id")),
                other_parts,
            )


def _content(content: Any) -> tuple[str, int]:
    """The text of a message's content, and the number of its parts that are not text."""
    parts = listed(content)
    texts = [part for one in parts if (part := text(one) or text(mapping(one).get("text")))]
    return text(content) or "\n".join(texts), len(parts) - len(texts)


def _answer(span: Span, response: Any) -> CallMessage | None:
    """The answer; None if none is recorded. What is neither a text nor requested tools is shown as JSON."""
    if span.status != "done":
        return None
    if tools := tuple(_requested(response)):
        return CallMessage("assistant", "", tools=tools)
    written = span.answer or ("" if response is None else json.dumps(response, ensure_ascii=False))
    return CallMessage("assistant", written) if written else None


def _requested(value: Any) -> Iterator[RequestedTool]:
    """The tool calls that a list holds, as OpenAI and Anthropic write them."""
    for one in map(mapping, listed(value)):
        function = mapping(one.get("function")) or one
        if name := text(function.get("name")):
            arguments = arguments_in(function.get("arguments", function.get("input")))
            yield RequestedTool(name, arguments, text(one.get("id")))


def _offered(tool: Mapping[str, Any]) -> OfferedTool:
    function = mapping(tool.get("function")) or tool
    schema = function.get("parameters", function.get("input_schema"))
    return OfferedTool(text(function.get("name")), text(function.get("description")), schema)
