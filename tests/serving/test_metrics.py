"""Prometheus reads metrics with a token. They name nothing but routes and states."""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries
from websockets.asyncio.client import connect
from websockets.typing import Origin

from tests.jobs.conftest import ROOT
from tests.serving.conftest import WebServer, started_server
from tests.serving.test_web_server import session_cookie
from tests.waiting import wait_until
from viewer import redaction
from viewer.models import Host, Job, Location
from viewer.redaction.values import redact
from viewer.web.metrics import registry

pytestmark = pytest.mark.postgresql

TOKEN = "prometheus-" + "x" * 20
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CANARY = "canary-4711"
# The only labels, and what they may hold.
LABELS = {
    "route": r"[a-z-]+",
    "status": r"[a-z]+|[1-5][0-9][0-9]",
    "state": r"answering|away",
}


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.keys() <= LABELS.keys(), sample
            assert all(re.fullmatch(LABELS[name], value) for name, value in sample.labels.items()), sample
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


@pytest.fixture
def scraper(client: Client, settings: LazySettings) -> Client:
    settings.METRICS_TOKEN = TOKEN
    return client


def scraped(scraper: Client) -> dict[tuple[str, tuple[str, ...]], float]:
    answer = scraper.get("/metrics", headers=BEARER)
    assert answer.status_code == 200 and answer["Content-Type"].startswith("text/plain")
    return samples(answer.content.decode())


def test_without_the_setting_there_is_no_such_page(runner: Client) -> None:
    missing = runner.get("/nowhere")
    for headers in ({}, BEARER, {"Authorization": "Bearer "}):
        answer = runner.get("/metrics", headers=headers)
        assert answer.status_code == missing.status_code == 404 and b"/metrics" not in answer.content


@pytest.mark.parametrize("given", ["", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"])
def test_only_the_token_reads_them(given: str, scraper: Client, runner: Client) -> None:
    for asked in (scraper, runner):
        answer = asked.get("/metrics", headers={"Authorization": given} if given else {})
        assert answer.status_code == 401 and b"forkline_" not in answer.content
    assert scraper.get(f"/metrics?token={TOKEN}").status_code == 401
    assert scraper.post("/metrics", headers=BEARER).status_code == 405


def test_rows_are_counted_with_a_constant_number_of_queries(
    scraper: Client, db: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    now = timezone.now()
    location = Location.objects.create(path=f"/{CANARY}", store_kind=Location.StoreKind.JSON)
    Location.objects.update(imported_at=now - timedelta(minutes=5), import_total=9, import_done=2)
    for number in range(30):
        later = {"start_at": now + timedelta(days=1)} if number % 2 else {}
        at = now - timedelta(seconds=100 + number)
        Job.objects.create(kind=Job.Kind.RUN, location=location, branch=CANARY, created_at=at, **later)
    Job.objects.create(kind=Job.Kind.RUN, location=location, status=Job.Status.FAILED)
    Host.objects.create(name=CANARY, is_up=True, seen_at=now - timedelta(hours=1))
    with django_assert_num_queries(4):
        answer = scraper.get("/metrics", headers=BEARER)
    text = answer.content.decode()
    found = samples(text)
    assert found["forkline_jobs", ("queued",)] == 30 and found["forkline_jobs", ("failed",)] == 1
    assert found["forkline_jobs", ("running",)] == 0
    assert 128 <= found["forkline_oldest_queued_job_seconds", ()] < 200
    assert 300 <= found["forkline_import_lag_seconds", ()] < 400
    assert found["forkline_import_checkpoints_left", ()] == 7
    assert found["forkline_hosts", ("away",)] >= 1
    for name in (CANARY, location.name, str(location.uid), TOKEN):
        assert name not in text


def test_a_new_installation_has_metrics(scraper: Client, db: None) -> None:
    found = scraped(scraper)
    assert found["forkline_import_lag_seconds", ()] == found["forkline_oldest_queued_job_seconds", ()] == 0


def test_each_hidden_secret_is_counted() -> None:
    before = redaction.hidden.count
    redact({"password": "hunter2!x", "text": "no secret", "pin": 1})
    assert redaction.hidden.count > before
    before = redaction.hidden.count
    redact({"text": "no secret"})
    assert redaction.hidden.count == before


@pytest.fixture
def measured(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setenv("METRICS_TOKEN", TOKEN)
    with started_server() as started:
        yield started


async def test_a_scrape_counts_requests_by_route_and_open_sockets(measured: WebServer) -> None:
    def read() -> dict[Any, float]:
        return samples(measured.get("/metrics", **BEARER).read().decode())

    for path in ("/login/", "/login/?next=/x", f"/{CANARY}", f"/shared/{CANARY}/", f"/search/?q={CANARY}"):
        measured.get(path)
    found = read()
    assert found["forkline_requests_total", ("login", "200")] == 2
    assert found["forkline_requests_total", ("none", "404")] == 1
    assert found["forkline_requests_total", ("shared", "404")] == 1
    assert found["forkline_requests_total", ("search", "302")] == 1
    assert found["process_resident_memory_bytes", ()] > 0 and found["forkline_sockets", ()] == 0
    cookie = await asyncio.to_thread(session_cookie, measured.port)
    site = f"127.0.0.1:{measured.port}"
    headers = {"Cookie": cookie}
    async with connect(f"ws://{site}/ws/home/", origin=Origin(f"http://{site}"), additional_headers=headers):
        await asyncio.to_thread(wait_until, lambda: read()["forkline_sockets", ()] == 1)
    await asyncio.to_thread(wait_until, lambda: read()["forkline_sockets", ()] == 0)


def test_the_dashboard_shows_metrics_that_exist(db: None) -> None:
    board = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    families = list(registry.collect())
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    assert {name for name in names if name.startswith("process_")}
    shown = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            shown |= set(re.findall(r"\b(?:forkline|process)_\w+", target["expr"]))
    assert shown <= names
    assert {name for name in names if name.startswith("forkline_")} <= shown
    guide = (ROOT / "docs" / "guide" / "operate.md").read_text()
    assert all(f"`{name}`" in guide for name in names if name.startswith("forkline_"))
