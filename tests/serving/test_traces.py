"""Requests as OpenTelemetry spans: routes instead of addresses, and nothing without a collector."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.test import Client

from checkpoint_site.middleware.traces import trace_requests
from scripts.served_demo import free_port
from tests.environments import environment_with
from tests.sharing.conftest import BROWSER, share, token_of
from tests.waiting import wait_until
from viewer.models import Run
from viewer.records.accounts import teammate

SECRET = "blue-whale-north"


class Collector(HTTPServer):
    """Receives OTLP as JSON over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        super().__init__(("127.0.0.1", 0), Receiving)

    @property
    def spans(self) -> list[dict[str, Any]]:
        found = [json.loads(body) for body in self.bodies]
        parts = [part for one in found for part in one["resourceSpans"]]
        return [span for part in parts for scope in part["scopeSpans"] for span in scope["spans"]]


class Receiving(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.headers.append(str(self.headers))
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def traced(collector: Collector, monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> Collector:
    """Send spans to the collector, from all requests of the test."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-key={SECRET}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    settings.IS_TRACED = True
    return collector


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_span_has_the_route_and_nothing_that_was_typed(traced: Collector, crew_run: Run) -> None:
    ada = teammate("ada.lovelace", "run")
    reader = Client(
        headers={"User-Agent": f"{BROWSER} {SECRET}", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    )
    reader.force_login(ada)
    link = share("run", str(crew_run.uid))
    addresses = [
        f"{crew_run.get_absolute_url()}?at={SECRET}&tab=tasks",
        f"/search/?q={SECRET}",
        f"{link}?at={SECRET}",
        f"{link}embed/",
        f"/login/link/?sesame={SECRET}",
        f"/invitation/{SECRET}/",
        f"/nowhere/{SECRET}/",
        f"/runs/{SECRET}/",
    ]
    for address in addresses:
        reader.get(address)
    reader.post(f"/shared/{SECRET}/", {"text": SECRET})
    wait_until(lambda: len(traced.spans) == len(addresses) + 1)
    everything = b"".join(traced.bodies).decode()
    session = reader.cookies[next(iter(reader.cookies))].value
    for hidden in (
        SECRET,
        token_of(link),
        str(crew_run.uid),
        "lovelace",
        session,
        "127.0.0.1",
        "SELECT",
        "a" * 32,
    ):
        assert hidden not in everything, hidden
    names = {span["name"] for span in traced.spans}
    assert {"GET runs/<uuid:uid>/", "GET shared/<str:token>/", "GET search/", "GET"} <= names
    run = next(span for span in traced.spans if span["name"] == "GET runs/<uuid:uid>/")
    found = attributes_of(run)
    assert found["http.response.status_code"] in (200, "200") and int(found["forkline.queries"]) > 0
    assert float(found["forkline.query_seconds"]) > 0 and found["http.route"] == "runs/<uuid:uid>/"
    assert set(found) == {
        *("http.request.method", "http.route", "http.response.status_code"),
        *("forkline.queries", "forkline.query_seconds"),
    }
    assert f"x-key: {SECRET}" in traced.headers[0]


def test_a_failure_has_a_status(traced: Collector) -> None:
    def broken(_request: HttpRequest) -> Any:
        from django.http import HttpResponseServerError

        return HttpResponseServerError()

    request = HttpRequest()
    request.method = "MADE-UP"
    trace_requests(broken)(request)
    wait_until(lambda: traced.spans)
    (span,) = traced.spans
    assert span["name"] == "_OTHER" and span["status"]["code"] in (2, "STATUS_CODE_ERROR")


def test_an_absent_collector_delays_no_page_and_its_key_is_not_logged(
    traced: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, crew_run: Run
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    client = Client()
    for _number in range(5):
        assert client.get("/login/").status_code == 200
    wait_until(lambda: "Spans cannot be sent" in caplog.text)
    assert SECRET not in caplog.text and caplog.text.count("Spans cannot be sent") == 1


ENDING = """
import django
django.setup()
from checkpoint_site.middleware.traces import tracer_of
tracer_of("1").start_span("last").end()
"""


def test_the_end_of_the_process_sends_the_last_spans_and_waits_for_no_collector(collector: Collector) -> None:
    for port, has_arrived in ((collector.server_port, True), (free_port(), False)):
        environment = environment_with(None, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
        collector.bodies.clear()
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", ENDING], env=environment, check=True, timeout=120)
        assert time.monotonic() - started < 25
        assert [span["name"] for span in collector.spans] == ["last"] * has_arrived


def test_without_a_collector_nothing_is_loaded(settings: LazySettings) -> None:
    assert not settings.IS_TRACED
    with pytest.raises(MiddlewareNotUsed):
        trace_requests(lambda _request: None)  # type: ignore[arg-type, return-value]
    code = (
        "import sys, checkpoint_site.asgi\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    environment = environment_with(
        None, OTEL_EXPORTER_OTLP_ENDPOINT="http://localhost:1", OTEL_SDK_DISABLED="true"
    )
    for disabled in (environment, environment_with(None)):
        subprocess.run([sys.executable, "-c", code], env=disabled, check=True, timeout=120)
