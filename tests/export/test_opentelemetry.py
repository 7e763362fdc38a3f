"""A run as OpenTelemetry spans, in files and in a real collector."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from scripts.served_demo import free_port
from tests.imported import imported_location
from tests.real_stores import copy_of
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.models import Location, Run
from viewer.presentation.export import FORMATS

pytestmark = pytest.mark.django_db
COLLECTOR = Path(sys.prefix) / f"lib/python3.{sys.version_info.minor}/site-packages/rotel/rotel-agent"
MESSAGES = {"gen_ai.input.messages", "gen_ai.output.messages"}
HOSTILE = "</script> \"'\\\n\x1b[2J"


def spans_of(run: Run, name: str = "otlp") -> list[dict[str, Any]]:
    """The spans of an export, each with its attributes as a mapping."""
    found = []
    for line in FORMATS[name].write(run).splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            found += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
    for span in found:
        values = {one["key"]: next(iter(one["value"].values()), None) for one in span.get("attributes", [])}
        span["attributes"] = values
    return found


def target_of(location: Location) -> str:
    return f"{location.path}#{location.checkpoints.earliest('row').checkpoint_id}"


def test_each_branch_is_a_trace_and_a_fork_links_to_its_origin(crew_run: Run) -> None:
    spans = spans_of(crew_run)
    roots = [span for span in spans if not span.get("parentSpanId")]
    main, fork = roots
    assert [root["attributes"]["forkline.branch"] for root in roots] == ["main", "exp-a"]
    assert main["name"] == "invoke_workflow research" and not main.get("links")
    (link,) = fork["links"]
    assert (link["traceId"], link["spanId"]) == (main["traceId"], main["spanId"])
    assert fork["startTimeUnixNano"] > main["endTimeUnixNano"]
    units = {
        span["name"]: span["traceId"]
        for span in spans
        if span["attributes"].get("forkline.span.kind") == "unit"
    }
    assert units == {
        "Research AI trends for 2026": main["traceId"],
        "Write a summary of AI": main["traceId"],
        "Write a summary of Rust": fork["traceId"],
    }
    ids = {(span["traceId"], span["spanId"]) for span in spans}
    assert len(ids) == len(spans)
    assert {(span["traceId"], span["parentSpanId"]) for span in spans if span not in roots} <= ids


def test_the_same_run_has_the_same_spans(crew_run: Run) -> None:
    assert FORMATS["otlp"].write(crew_run) == FORMATS["otlp"].write(crew_run)


def test_a_model_call_has_the_attributes_of_the_conventions(crew_run: Run) -> None:
    calls = [span for span in spans_of(crew_run) if span["name"].startswith("chat ")]
    assert len(calls) == 3
    for span in calls:
        assert span["name"] == "chat gpt-4o-mini" and span["kind"] == 3
        assert span["attributes"]["gen_ai.provider.name"] == "openai"
        assert int(span["attributes"]["gen_ai.usage.input_tokens"]) == 10


def test_messages_are_exported_only_if_they_are_asked_for(crew_run: Run) -> None:
    without = FORMATS["otlp"].write(crew_run)
    assert "messages" not in without and "Your personal goal" not in without
    calls = [span for span in spans_of(crew_run, "otlp-messages") if span["name"].startswith("chat ")]
    for span in calls:
        sent = json.loads(span["attributes"]["gen_ai.input.messages"])
        assert [message["role"] for message in sent] == ["system", "user"]
        (answer,) = json.loads(span["attributes"]["gen_ai.output.messages"])
        assert answer["parts"][0]["type"] == "text" and answer["finish_reason"] == "stop"


def test_the_content_of_all_branches_together_is_limited(
    crew_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [span for span in spans_of(crew_run, "otlp-messages") if span["name"].startswith("chat ")]
    sizes = [sum(len(call["attributes"][name]) for name in MESSAGES) for call in calls]
    monkeypatch.setattr("viewer.presentation.export_spans.MAX_CONTENT", sum(sizes[:2]))
    calls = [span for span in spans_of(crew_run, "otlp-messages") if span["name"].startswith("chat ")]
    assert [set(call["attributes"]) >= MESSAGES for call in calls] == [True, True, False]
    assert calls[2]["attributes"]["forkline.gen_ai.input.messages.is_left_out"] == "true"


def test_a_thread_says_that_its_times_are_estimated_and_ends_are_missing(
    tmp_path: Path, settings: Any, reader: Client
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg10.db", tmp_path))
    agent = location.runs.get(key="agent")
    reader.get(reverse("run", args=[agent.uid]))
    by_name = {span["name"]: span["attributes"] for span in spans_of(agent, "otlp-messages")}
    tools = [name for name in by_name if name.startswith("execute_tool ")]
    assert tools and all(by_name[name]["gen_ai.tool.call.arguments"] for name in tools)
    assert all(by_name[name]["forkline.time.is_estimated"] for name in tools)
    waiting = location.runs.get(key="waiting")
    reader.get(reverse("run", args=[waiting.uid]))
    ends = [span["attributes"].get("forkline.end_time.is_missing") for span in spans_of(waiting)]
    assert True in ends


def test_the_checkpoints_that_are_decoded_for_all_branches_together_are_limited(
    crew_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.presentation.export_spans.MAX_CHECKPOINTS", 1)
    (root,) = [span for span in spans_of(crew_run) if not span.get("parentSpanId")]
    assert root["attributes"]["forkline.branch"] == "exp-a"
    assert root["attributes"]["forkline.branches.left_out"] == "1"


def test_a_run_without_times_says_so(crew_run: Run) -> None:
    from viewer.presentation import export_spans
    from viewer.presentation.spans import BranchSpans

    crew_run.checkpoints.update(created_at=None)
    lines = list(crew_run.checkpoints.filter(branch="main").select_related("location").order_by("row"))
    found = BranchSpans("main", (), lines)
    (root,) = export_spans._Branch.of(crew_run, found, {}, False, 0, 0).spans()
    assert root.attributes is not None and root.attributes["forkline.time.is_missing"]
    assert root.start_time == root.end_time == 0


def test_hostile_texts_and_numbers_are_written_as_every_collector_reads_them(
    tmp_path: Path, settings: Any
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.rglob("*.json"):
        body = json.loads(path.read_text())
        body["entities"][0]["name"] = HOSTILE
        for record in body["event_record"]["nodes"].values():
            event = record["event"]
            if event["type"] == "llm_call_started":
                event |= {
                    "temperature": 10**40,
                    "seed": -(10**40),
                    "max_tokens": "many",
                    "model": HOSTILE * 1000,
                }
            event["agent_role"] = HOSTILE * 1000
        path.write_text(json.dumps(body))
    run = imported_location(folder).runs.get()
    text = FORMATS["otlp-messages"].write(run)
    text.encode()
    assert text.count("\n") == len(text.splitlines()) == len(run.branch_names)
    for span in spans_of(run, "otlp-messages"):
        assert len(span["name"]) <= 200 and "\ud800" not in json.dumps(span, ensure_ascii=False)
        seed = span["attributes"].get("gen_ai.request.seed")
        assert seed is None or isinstance(seed, str)


@contextmanager
def collector(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a running collector, and the file to which it prints each span."""
    ports, printed = (free_port(), free_port()), folder / "collector.log"
    endpoints = [
        "--otlp-http-endpoint",
        f"127.0.0.1:{ports[0]}",
        "--otlp-grpc-endpoint",
        f"127.0.0.1:{ports[1]}",
    ]
    prints = ["--debug-log", "traces", "--debug-log-verbosity", "detailed", "--exporter", "blackhole"]
    with printed.open("wb") as file:
        process = subprocess.Popen(
            [COLLECTOR, "start", *endpoints, *prints, "--batch-timeout", "10ms"], stdout=file, stderr=file
        )
        try:
            wait_until(lambda: "Starting Rotel" in printed.read_text())
            yield f"http://127.0.0.1:{ports[0]}", printed
        finally:
            process.kill()
            process.wait()


def test_a_collector_receives_the_same_spans_again(
    tmp_path: Path, crew_location: Location, terminal: Terminal
) -> None:
    run = crew_location.runs.get()
    wanted = sorted(span["spanId"] for span in spans_of(run))
    with collector(tmp_path) as (address, printed):
        for number in (1, 2):
            sent = terminal.document("export", target_of(crew_location), "--format", "otlp", "--to", address)
            assert sent["sent"] == len(wanted)

            def received(number: int = number) -> bool:
                lines = [line.partition(":") for line in printed.read_text().splitlines()]
                ids = sorted(value.strip() for name, _colon, value in lines if name.strip() == "ID")
                return ids == sorted(wanted * number)

            wait_until(received)
        text = printed.read_text()
    assert "gen_ai.request.model: Str(gpt-4o-mini)" in text and "gen_ai.usage.input_tokens: Int(10)" in text
    assert "Your personal goal" not in text


@pytest.mark.parametrize(
    "address",
    [
        *("collector:4318", "file:///etc/passwd", "http://", "http://[", "http://a:b@localhost:4318"),
        *("http://localhost:99999", "http://localhost/?key=1", "http://localhost\n", "http://l\u043ecalhost"),
    ],
)
def test_what_is_no_address_of_a_collector_is_refused(
    crew_location: Location, terminal: Terminal, address: str
) -> None:
    error = terminal.refused("export", target_of(crew_location), "--format", "otlp", "--to", address)["error"]
    assert "the HTTP address of a collector" in error


def test_only_spans_are_sent_and_an_absent_collector_is_named(
    crew_location: Location, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    address = f"http://127.0.0.1:{free_port()}"
    target = target_of(crew_location)
    assert "--to needs --format" in terminal.refused("export", target, "--to", address)["error"]
    started = time.monotonic()
    error = terminal.refused("export", target, "--format", "otlp", "--to", address)["error"]
    assert address in error and time.monotonic() - started < 5


class Repeating(BaseHTTPRequestHandler):
    """Refuses requests, and repeats their key in the reason."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401, f"No key {self.headers.get('x-key')}")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def test_headers_of_the_environment_are_never_printed(
    crew_location: Location,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Repeating)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = ("export", target_of(crew_location), "--format", "otlp", "--to")
    faults = {
        "x-key=blue-whale": "401",
        "x-key=blue-whale%0d%0anorth": "Invalid",
        "x-key blue-whale": "Header format invalid",
        "x-other=1,x-key blue-whale": "Header format invalid",
    }
    try:
        for headers, reason in faults.items():
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
            error = terminal.refused(*command, f"http://127.0.0.1:{server.server_port}")["error"]
            assert reason in error and "whale" not in error + caplog.text
    finally:
        server.shutdown()
        server.server_close()
