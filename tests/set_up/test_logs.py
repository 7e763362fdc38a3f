"""Logs: starts and ends of jobs, requests without their query string, and JSON lines."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from checkpoint_site.logs import JsonFormatter, PlainFormatter
from tests.environments import environment_with
from viewer.models import Job, Location

ROOT = Path(__file__).resolve().parent.parent.parent
TOKEN = "sk-proj-abcdefghij0123456789KLMNOPQRST"


@pytest.fixture
def job(db: None) -> Job:
    location = Location.objects.create(path="/store\nINFO forged", store_kind="json")
    return Job.objects.create(kind=Job.Kind.FORK, location=location, request={"inputs": {"a": "typed"}})


def test_a_job_is_logged_when_it_starts_and_ends(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "forkline.jobs"):
        assert job.claim() and not job.claim()
        assert job.end(Job.Status.SUCCEEDED, result="what a model wrote")
        assert not job.end(Job.Status.FAILED)
    first, last = caplog.records
    for formatter in (PlainFormatter(), JsonFormatter()):
        lines = [formatter.format(record) for record in (first, last)]
        assert not any("\n" in line or "typed" in line or "model wrote" in line for line in lines)
        assert all(str(job.pk) in line for line in lines)
    logged = json.loads(JsonFormatter().format(last))
    assert (logged["job"], logged["kind"], logged["status"]) == (str(job.pk), "fork", "succeeded")
    assert logged["location"] == "/store\nINFO forged" and logged["seconds"] >= 0
    assert logged["level"] == "info" and logged["time"].endswith("+00:00")
    assert "\\nINFO forged" in PlainFormatter().format(first)


def test_a_job_that_is_cancelled_before_its_start_is_logged(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "forkline.jobs"):
        job.request_cancel()
        job.request_cancel()
    assert [record.getMessage().split()[2] for record in caplog.records] == ["cancelled:"]


def test_a_json_line_has_the_traceback_without_secrets() -> None:
    try:
        raise ValueError(f"key {TOKEN}")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "at %s", (f"a\n{TOKEN}",), sys.exc_info())
    record.__dict__["password"] = "correct horse battery"
    record.__dict__["request"] = object()
    line = JsonFormatter().format(record)
    logged = json.loads(line)
    assert "\n" not in line and TOKEN not in line and "correct horse" not in line
    assert "ValueError" in logged["exception"] and "request" not in logged


def test_a_request_is_logged_without_its_query(
    client: Client, db: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "forkline.requests"):
        client.get("/login/link/?sesame=the-login-link")
        client.get("/healthz")
    lines = [JsonFormatter().format(record) for record in caplog.records]
    lines = [line for line in lines if "forkline.requests" in line]
    assert "the-login-link" not in "".join(lines)
    logged = [json.loads(line) for line in lines]
    assert [(one["path"], one["status"]) for one in logged] == [("/login/link/", 403), ("/healthz", 200)]


@pytest.mark.parametrize("form", ["plain", "json", "xml"])
def test_the_log_format_is_a_setting(form: str, tmp_path: Path) -> None:
    script = "import django, logging; django.setup(); logging.getLogger('uvicorn.error').error('x')"
    environment = environment_with(tmp_path, LOG_FORMAT=form)
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if form == "xml":
        assert ended.stderr == "LOG_FORMAT must be one of plain, json, not 'xml'.\n"
    elif form == "json":
        assert json.loads(ended.stderr)["logger"] == "uvicorn.error"
    else:
        assert ended.stderr.endswith("ERROR uvicorn.error: x\n")
