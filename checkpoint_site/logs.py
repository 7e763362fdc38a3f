"""Logs and traces: formatters, plain and JSON, and a line and a span of each request.

Both formatters redact secrets and the tokens in links. A span says which route was opened, but not its
address: that holds the tokens of links, and what people typed. The packages that instrument Django record
addresses, so this does not use them.
"""

import atexit
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from logging.handlers import WatchedFileHandler
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from viewer.redaction.known_secrets import redact_text
from viewer.redaction.values import redact
from viewer.validation import one_line

# The attributes of every record. Others come from the caller.
STANDARD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
# Attributes that Django, uvicorn and asyncio add and no program reads.
OMITTED_ATTRIBUTES = {"request", "status_code", "server_time", "color_message", "websocket"}

# The token of a share link, an invitation or a link for a new password or mail address, a part of its path.
TOKEN = re.compile(r"(/(?:shared|invitation|password/new|account/mail)/)[^/\s\"']+")

# A failure that was not met for this long is logged again.
REPEATED_SECONDS = 60.0

GetResponse = Callable[[HttpRequest], HttpResponseBase]
requests = logging.getLogger("forkline.requests")


class OneLineRefusals(logging.Filter):
    """Logs a refused request without a traceback. Anybody can send one, and the message says why."""

    def filter(self, record: logging.LogRecord) -> bool:
        if HTTPStatus.BAD_REQUEST <= getattr(record, "status_code", 0) < HTTPStatus.INTERNAL_SERVER_ERROR:
            record.exc_info = record.exc_text = None
        return True


class BriefFailures(logging.Filter):
    """Logs a failure of the data folder's disk or database in one line, and not again while it lasts.

    Threads, followers and pages meet the same full disk many times a second, and the line says what to do.
    """

    def __init__(self) -> None:
        super().__init__()
        # The time at which each message was last logged or left out, on the monotonic clock.
        self._seen: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = _error_of(record)
        if error is None:
            return True
        from viewer.data_folder.failures import failure_text

        if not (text := failure_text(error)):
            return True
        record.msg, record.args = text, ()
        record.exc_info = record.exc_text = None
        now = time.monotonic()
        is_new = now - self._seen.get(text, float("-inf")) > REPEATED_SECONDS
        self._seen[text] = now
        return is_new


def _error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the error of which a record has the traceback or the message."""
    if record.exc_info:
        return record.exc_info[1]
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((one for one in arguments if isinstance(one, Exception)), None)


class PlainFormatter(logging.Formatter):
    """One line per message, followed by the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text. Text quoted in a message cannot start a new line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        message = one_line(record.getMessage())
        lines = [f"{at} {record.levelname} {record.name}: {message}"]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        return without_tokens(redact_text("\n".join(lines)))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the attributes from the caller."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {
            name: value
            for name, value in vars(record).items()
            if name not in STANDARD_ATTRIBUTES | OMITTED_ATTRIBUTES and not name.startswith("_")
        }
        line = {
            **{
                name: value if isinstance(value, int | float) else str(value) for name, value in extra.items()
            },
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_tokens(json.dumps(redact(line)))


class AuditFile(WatchedFileHandler):
    """Appends entries of the audit trail to a file, which a program that rotates logs may replace.

    They are stored by then. So a failure is reported on stderr, and stops nothing.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Append an entry. The library reports a failed write, but raises if the file cannot be opened."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)


def without_tokens(text: str) -> str:
    """Return the text without the tokens of share links, invitations and links of accounts."""
    return TOKEN.sub(r"\1[token]", text)


def log_request(get_response: GetResponse) -> GetResponse:
    """Middleware: log each request without its query string, which may hold a login link."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        started = time.monotonic()
        response = get_response(request)
        if requests.isEnabledFor(logging.INFO):
            milliseconds = round((time.monotonic() - started) * 1000)
            details = {
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "milliseconds": milliseconds,
            }
            requests.info("%s %s %s in %s ms", *details.values(), extra=details)
        return response

    return middleware


# Sends a span of each answered request to an OpenTelemetry collector, if the standard variables name one.

SPAN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# A collector that is away fails for each batch.
SECONDS_BETWEEN_FAULTS = 60
# How long the end of the process waits for a collector.
EXIT_SECONDS = 2

traces = logging.getLogger("forkline.traces")


@dataclass(slots=True)
class Queries:
    """How many queries a request has sent, and how long they took in seconds."""

    count: int = 0
    seconds: float = 0

    def __call__(self, execute: Callable[..., Any], *query: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(*query)
        finally:
            self.count += 1
            self.seconds += time.perf_counter() - started


class SendingFaults(logging.Handler):
    """Logs what the library reports about sending, without headers, which hold keys, and once a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.logged_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        # Imported here: it loads the library.
        from viewer.presentation.export_spans import without_headers

        now = time.monotonic()
        if now - self.logged_at >= SECONDS_BETWEEN_FAULTS:
            self.logged_at = now
            traces.warning("Spans cannot be sent: %s", without_headers(record.getMessage()))


def trace_requests(get_response: GetResponse) -> GetResponse:
    """Middleware: send a span of each request. Without a collector, it is not used and loads no library."""
    if not settings.IS_TRACED:
        raise MiddlewareNotUsed
    tracer = tracer_of(settings.VERSION)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, StatusCode

        method = request.method if request.method in SPAN_METHODS else "_OTHER"
        # Each request is a trace of its own: any client could name another one in a header.
        span = tracer.start_span(str(method), kind=SpanKind.SERVER, context=Context())
        with counted_queries() as queries:
            response = get_response(request)
        if request.resolver_match:
            span.update_name(f"{method} {request.resolver_match.route}")
            span.set_attribute("http.route", request.resolver_match.route)
        span.set_attribute("http.request.method", str(method))
        span.set_attribute("http.response.status_code", response.status_code)
        span.set_attribute("forkline.queries", queries.count)
        span.set_attribute("forkline.query_seconds", queries.seconds)
        if response.status_code >= 500:
            span.set_status(StatusCode.ERROR)
        span.end()
        return response

    return middleware


@contextmanager
def counted_queries() -> Iterator[Queries]:
    """Count the queries within the block."""
    queries = Queries()
    with connection.execute_wrapper(queries):
        yield queries


def tracer_of(version: str) -> Any:
    """Return what makes spans, and sends them from a thread of its own. The library reads its variables."""
    from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    library = logging.getLogger("opentelemetry")
    library.propagate = False
    library.handlers = [SendingFaults()]
    named = OTELResourceDetector().detect().attributes.get("service.name", "forkline")
    resource = Resource.create({"service.name": named, "service.version": version})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    send_the_rest_at_exit(provider.shutdown)
    return provider.get_tracer("forkline")


def send_the_rest_at_exit(shut_down: Callable[[], None]) -> None:
    """Call this at the end of the process, which waits for it a moment: the library would wait 30 seconds."""
    has_to_end, has_ended = threading.Event(), threading.Event()

    def end() -> None:
        has_to_end.wait()
        shut_down()
        has_ended.set()

    def wait() -> None:
        has_to_end.set()
        has_ended.wait(EXIT_SECONDS)

    # No thread can be started at the end.
    threading.Thread(target=end, name="traces", daemon=True).start()
    atexit.register(wait)
