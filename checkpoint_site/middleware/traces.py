"""Sends a span of each answered request to an OpenTelemetry collector, if the standard variables name one.

A span says which route was opened, but not its address: that holds the tokens of links, and what people
typed. The packages that instrument Django record addresses, so this does not use them.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from checkpoint_site.logs import GetResponse

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# A collector that is away fails for each batch.
SECONDS_BETWEEN_WARNINGS = 60
# How long the end of the process waits for a collector.
EXIT_SECONDS = 2

logger = logging.getLogger("forkline.traces")


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


class Faults(logging.Handler):
    """Logs what the library reports about sending, without headers, which hold keys, and once a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.logged_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        # Imported here: it loads the library.
        from viewer.presentation.export_spans import without_headers

        now = time.monotonic()
        if now - self.logged_at >= SECONDS_BETWEEN_WARNINGS:
            self.logged_at = now
            logger.warning("Spans cannot be sent: %s", without_headers(record.getMessage()))


def trace_requests(get_response: GetResponse) -> GetResponse:
    """Middleware: send a span of each request. Without a collector, it is not used and loads no library."""
    if not settings.IS_TRACED:
        raise MiddlewareNotUsed
    tracer = tracer_of(settings.VERSION)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, StatusCode

        method = request.method if request.method in METHODS else "_OTHER"
        # Each request starts a new trace: a client could name any other one in a header.
        span = tracer.start_span(str(method), kind=SpanKind.SERVER, context=Context())
        with counted() as queries:
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
def counted() -> Iterator[Queries]:
    """Count the queries within the block."""
    queries = Queries()
    with connection.execute_wrapper(queries):
        yield queries


def tracer_of(version: str) -> Any:
    """Return a tracer that sends its spans from a separate thread. The library reads its variables itself."""
    from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    library = logging.getLogger("opentelemetry")
    library.propagate = False
    library.handlers = [Faults()]
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
