"""A run as OpenTelemetry spans, by the semantic conventions for generative AI.

Each branch is a trace. That of a fork has what ran on its own branch, and a link to the branch that it was
forked from. Ids are digests of the ids of the run, its branches and their spans, so spans that are sent again
are the same spans.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.json.http import trace_exporter
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_HEADERS,
    OTEL_EXPORTER_OTLP_TRACES_HEADERS,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from viewer.engines import engine_of
from viewer.engines.recorded_calls import CallMessage, RecordedCall, Span
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Run
from viewer.presentation.spans import BranchSpans, branch_spans, count_read
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.run_rows import branch_status
from viewer.redaction.known_secrets import KnownSecrets, redact_text

# Spans are exported of this many branches, and from this many checkpoints, of those started last. A thread's
# spans are read from each checkpoint of a branch.
MAX_BRANCHES, MAX_CHECKPOINTS = 100, 2_000
# Spans in one line of a file, and in one request: collectors limit the bytes of a request.
MAX_BATCH = 200
# Characters of messages, arguments and results of one export, and of a name.
MAX_CONTENT, MAX_NAME = 20_000_000, 200
MAX_INTEGER = 2**63 - 1
# The variables with the headers of requests, and the fewest characters of a secret in them.
HEADERS = (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS)
MIN_SECRET = 5
START = datetime(1970, 1, 1, tzinfo=UTC)
SCOPE = InstrumentationScope("forkline")
# The names of providers, by what precedes the name of a model.
PROVIDERS: Mapping[str, str] = {
    **{name: name for name in ("anthropic", "cohere", "deepseek", "groq", "openai", "perplexity")},
    **{"azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini", "google": "gcp.gen_ai"},
    **{"vertex_ai": "gcp.vertex_ai", "mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai"},
    **{"claude-": "anthropic", "gpt-": "openai", "gemini-": "gcp.gen_ai", "mistral-": "mistral_ai"},
    **{"deepseek-": "deepseek", "grok-": "x_ai", "command-": "cohere", "watsonx": "ibm.watsonx.ai"},
}
# The attributes of what was sent to a model, and the types that they may have.
PARAMETERS: Mapping[str, tuple[str, type]] = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "seed": ("gen_ai.request.seed", int),
    "n": ("gen_ai.request.choice.count", int),
    "stream": ("gen_ai.request.stream", bool),
}
KEPT = {name for name, _type in PARAMETERS.values()}


class NotSent(Exception):
    """A collector did not accept the spans. The text says why, as far as it is known."""


def as_lines(run: Run, *, has_content: bool) -> str:
    """The spans in OTLP's JSON, one request on each line. Content is messages, arguments and results."""
    return "".join(f"{encode_spans(batch).to_json()}\n" for batch in _batches(run, has_content))


def send(run: Run, address: str, *, has_content: bool) -> int:
    """Send the spans to the collector at this address, and return their number. Raises NotSent."""
    faults, logger = _Faults(), logging.getLogger("opentelemetry")
    logger.addHandler(faults)
    # The caller says what went wrong. The library also logs headers, which hold keys.
    logger.propagate = False
    exporter, sent = None, 0
    try:
        exporter = trace_exporter.OTLPSpanExporter(address)
        if faults.last:
            raise NotSent(faults.last)
        for batch in _batches(run, has_content):
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise NotSent(faults.last)
            sent += len(batch)
    finally:
        if exporter is not None:
            exporter.shutdown()
        logger.removeHandler(faults)
        logger.propagate = True
    return sent


class _Faults(logging.Handler):
    """Keeps the last message that the library logs: it returns only whether it has failed."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = without_headers(record.getMessage())


def without_headers(text: str) -> str:
    """Return the text without the values of the headers in the variables, which a collector may repeat."""
    parts = [part.strip() for name in HEADERS for part in os.environ.get(name, "").split(",")]
    # What is not a header is logged whole. The value of 1, of a tenant, is part of every text.
    values = [*parts, *(unquote(part.partition("=")[2]).strip() for part in parts)]
    return redact_text(text, KnownSecrets(value for value in values if len(value) >= MIN_SECRET))


def _batches(run: Run, has_content: bool) -> Iterator[list[ReadableSpan]]:
    """The spans of the branches, those of a branch after the ones of its origin."""
    ends: dict[str, Mapping[str, datetime | None]] = {}
    names, content = run.branch_names, 0
    exported_names = _exported(run, names)
    left_out = len(names) - len(exported_names)
    for name in exported_names:
        found = branch_spans(run, name)
        if not found.checkpoints:
            continue
        exported = _Branch.of(run, found, ends, has_content, left_out, content)
        ends[name] = {span.id: span.end for span in found.spans}
        spans = list(exported.spans())
        content = exported.content
        for at in range(0, len(spans), MAX_BATCH):
            yield spans[at : at + MAX_BATCH]


def _exported(run: Run, names: Sequence[str]) -> Sequence[str]:
    """The branches that are exported: as many of the last ones as the limits allow, at least one."""
    found, room = list[str](), MAX_CHECKPOINTS
    for name in reversed(names[-MAX_BRANCHES:]):
        room -= count_read(run, name)
        if found and room < 0:
            break
        found.append(name)
    return found[::-1]


@dataclass(slots=True)
class _Branch:
    """A branch as a trace. ``ran`` are its own spans, ``origin`` the checkpoint that it was forked from.

    ``content`` counts the characters of messages, arguments and results that are exported so far.
    """

    run: Run
    head: Checkpoint
    origin: Checkpoint | None
    ran: Sequence[Span]
    times: Sequence[datetime]
    calls: Mapping[str, RecordedCall]
    left_out: Mapping[str, int]
    has_content: bool
    content: int

    @classmethod
    def of(
        cls,
        run: Run,
        found: BranchSpans,
        ends: Mapping[str, Mapping[str, datetime | None]],
        has_content: bool,
        branches_left_out: int,
        content: int,
    ) -> "_Branch":
        head = found.checkpoints[-1]
        before = [one for one in found.checkpoints if one.branch != head.branch]
        origin = before[-1] if before else None
        known = ends.get(origin.branch, {}) if origin else {}
        # The origin has these spans, with the same end or one that the branch lacks.
        ran = [one for one in found.spans if one.id not in known or one.end not in (None, known[one.id])]
        if origin and ran and ran[0].kind == "gap":
            # The time before the fork is not part of it.
            del ran[0]
        written = [
            one.created_at for one in found.checkpoints if one.branch == head.branch and one.created_at
        ]
        try:
            calls = {call.id: call for call in calls_in(readable_contents(head))}
        except NotReadable:
            calls = {}
        left_out = {"checkpoints": found.left_out, "branches": branches_left_out}
        times = [*written, *(span.start for span in ran), *(span.end for span in ran if span.end)]
        return cls(run, head, origin, ran, times, calls, left_out, has_content, content)

    def spans(self) -> Iterator[ReadableSpan]:
        """The span of the branch, and those of what ran within it."""
        yield self._root()
        ids = {span.id for span in self.ran}
        for span in self.ran:
            above = self._context(span.parent if span.parent in ids else "")
            yield self._span(span, above)

    def _root(self) -> ReadableSpan:
        run, head = self.run, self.head
        operation = "invoke_agent" if head.entity == "agent" else "invoke_workflow"
        named = "gen_ai.agent.name" if head.entity == "agent" else "gen_ai.workflow.name"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            named: str(run),
            "forkline.engine": engine_of(run.location).name,
            "forkline.run.id": run.key,
            "forkline.branch": head.branch,
            "forkline.status": branch_status(head),
            "forkline.time.is_missing": not self.times,
        }
        if head.is_open_ended:
            attributes["gen_ai.conversation.id"] = run.key
        for name, count in self.left_out.items():
            attributes[f"forkline.{name}.left_out"] = count
        links = []
        if self.origin is not None:
            context = _context_of(run, self.origin.branch, "")
            links = [Link(context, _clean({"forkline.checkpoint.id": self.origin.checkpoint_id}))]
        error = "" if branch_status(head) == Run.Status.FAILED else None
        times = self.times or [START]
        return self._readable(
            f"{operation} {run}", "", (min(times), max(times)), attributes, error, links=links
        )

    def _span(self, span: Span, above: SpanContext) -> ReadableSpan:
        name, kind = span.label, SpanKind.INTERNAL
        attributes: dict[str, Any] = {
            "forkline.span.kind": span.kind,
            "forkline.time.is_estimated": span.is_estimated,
        }
        if span.agent:
            attributes["gen_ai.agent.name"] = span.agent
        if span.kind == "unit" and span.agent:
            name = f"invoke_agent {span.agent}"
            attributes |= {"gen_ai.operation.name": "invoke_agent", "forkline.unit": span.label}
        elif span.kind == "tool":
            name = f"execute_tool {span.label}"
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": span.label}
            result = {"done": span.answer, "failed": span.error}.get(span.status)
            attributes |= self._content(
                {"gen_ai.tool.call.arguments": span.arguments, "gen_ai.tool.call.result": result}
            )
        elif span.kind == "model":
            name, kind = f"chat {span.call.model or span.label}".rstrip(), SpanKind.CLIENT
            attributes |= self._call(span)
        # A span needs an end.
        attributes["forkline.end_time.is_missing"] = span.end is None
        end = span.end or span.start
        error = span.error if span.status == "failed" else None
        return self._readable(name, span.id, (span.start, end), attributes, error, above=above, kind=kind)

    def _call(self, span: Span) -> dict[str, Any]:
        """The attributes of a model call. Tokens that are not recorded are left out."""
        call, used = self.calls.get(span.call_id), span.call
        model = (call.model if call else "") or used.model or span.label
        found: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(model),
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": used.tokens_in or None,
            "gen_ai.usage.output_tokens": used.tokens_out or None,
            "gen_ai.usage.cache_read.input_tokens": used.cached or None,
        }
        if call is not None:
            found |= _parameters(call.parameters)
            reason, response = call.reported.get("finish_reason"), call.reported.get("response_id")
            found["gen_ai.response.finish_reasons"] = [reason] if isinstance(reason, str) else None
            found["gen_ai.response.id"] = response if isinstance(response, str) else None
        answer = call.answer if call and call.answer else None
        if answer is None and span.answer:
            answer = CallMessage("assistant", span.answer)
        sent = call.messages if call else span.prompt
        output = (
            [{**_message(answer), "finish_reason": "tool_call" if answer.tools else "stop"}]
            if answer
            else None
        )
        return found | self._content(
            {"gen_ai.input.messages": list(map(_message, sent)) or None, "gen_ai.output.messages": output}
        )

    def _content(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The values as JSON, if messages are exported and the maximum is not reached."""
        found = dict[str, str]()
        for name, value in values.items() if self.has_content else ():
            if value in (None, ""):
                continue
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            self.content += len(text)
            found |= {name: text} if self.content <= MAX_CONTENT else {f"forkline.{name}.is_left_out": "true"}
        return found

    def _readable(
        self,
        name: str,
        span_id: str,
        times: tuple[datetime, datetime],
        attributes: Mapping[str, Any],
        error: str | None,
        *,
        above: SpanContext | None = None,
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        """The span of the SDK. ``error`` is None if it did not fail."""
        is_failed = error is not None
        start, end = times
        return ReadableSpan(
            name=_text(name)[:MAX_NAME],
            context=self._context(span_id),
            parent=above,
            resource=Resource({"service.name": _text(str(self.run))[:MAX_NAME]}),
            attributes=_clean({**attributes, "error.type": "_OTHER" if is_failed else None}),
            links=links,
            kind=kind,
            status=Status(StatusCode.ERROR, _text(error or "")) if is_failed else Status(StatusCode.UNSET),
            start_time=_nanoseconds(start),
            end_time=_nanoseconds(max(start, end)),
            instrumentation_scope=SCOPE,
        )

    def _context(self, span_id: str) -> SpanContext:
        return _context_of(self.run, self.head.branch, span_id)


def _context_of(run: Run, branch: str, span_id: str) -> SpanContext:
    """The ids of a span of a branch; of the branch itself without one."""
    trace, span = _digest(str(run.uid), branch), _digest(str(run.uid), branch, "span", span_id)
    return SpanContext(
        int.from_bytes(trace[:16]),
        int.from_bytes(span[:8]),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _digest(*parts: str) -> bytes:
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def _nanoseconds(at: datetime) -> int:
    return min(max(0, (at - START) // timedelta(microseconds=1) * 1000), MAX_INTEGER)


def _message(message: CallMessage) -> dict[str, Any]:
    """The message as the conventions write it. The result of a tool call is one part."""
    if message.answers:
        part = {"type": "tool_call_response", "id": message.answers, "response": message.text}
        return {"role": message.role or "tool", "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.text}] if message.text else []
    for tool in message.tools:
        parts.append({"type": "tool_call", "id": tool.id, "name": tool.name, "arguments": tool.arguments})
    return {"role": message.role, "parts": parts}


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, (attribute, wanted) in PARAMETERS.items():
        value = given.get(name)
        if wanted is float and type(value) is int:
            value = float(min(max(value, -MAX_INTEGER), MAX_INTEGER))
        if type(value) is wanted:
            found[attribute] = value
    stops = given.get("stop_sequences")
    if isinstance(stops, list):
        found["gen_ai.request.stop_sequences"] = [one for one in stops if isinstance(one, str)]
    return found


def _provider(model: str) -> str | None:
    """The provider of a model, as far as its name says it."""
    prefix, slash, _name = model.partition("/")
    if slash:
        return PROVIDERS.get(prefix)
    return next(
        (name for start, name in PROVIDERS.items() if start.endswith("-") and model.startswith(start)), None
    )


def _clean(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that say something, with values that every collector can read."""
    known = ((name, _readable_value(value)) for name, value in attributes.items() if value is not None)
    # A parameter may be zero.
    return {name: value for name, value in known if value or (value == 0 and name in KEPT)}


def _readable_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    is_number = isinstance(value, int | float)
    if is_number and not abs(value) <= MAX_INTEGER:
        return str(value)
    return value if is_number else _text(value)


def _text(value: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 cannot hold."""
    return value.encode(errors="replace").decode()
