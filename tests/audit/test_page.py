"""The page of the audit trail, its download, and the command."""

import json
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.terminal import Terminal
from viewer.models import AuditEntry
from viewer.records.accounts import teammate
from viewer.records.audit import Action, Audited, acting_for, record
from viewer.web.views.audit import PAGE

HOSTILE = "\u202e<script>alert(1)</script>\x1b[2K"


@pytest.fixture(autouse=True)
def _enabled(settings: LazySettings, db: None) -> None:
    settings.AUDIT = True


def fill(count: int, name: str = "eve", **values: str) -> None:
    """Store entries of a user, one a day, the newest of today."""
    for days in reversed(range(count)):
        AuditEntry.objects.create(
            **{"actor_kind": "user", "actor": name, "action": "opened", "kind": "job", "key": f"{name}{days}"}
            | values,
            at=timezone.now() - timedelta(days=days),
        )


def page(client: Client, query: str = "") -> str:
    answer = client.get(f"/audit/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_only_those_who_may_run_find_the_page(settings: LazySettings, client: Client, reader: Client) -> None:
    anybody = Client()
    for address in ("/audit/", "/audit/export/"):
        assert reader.get(address).status_code == 403
        assert anybody.get(address).status_code == 302
    assert "/audit/" not in reader.get("/settings/").content.decode()
    teammate("reader", "run")
    assert reader.get("/audit/").status_code == reader.get("/audit/export/").status_code == 200
    assert 'href="/audit/"' in reader.get("/settings/").content.decode()
    assert 'href="/audit/"' in reader.get("/palette/?q=audit").content.decode()
    settings.AUDIT = False
    assert reader.get("/audit/").status_code == reader.get("/audit/export/").status_code == 404
    assert "/audit/" not in reader.get("/settings/").content.decode()


def test_filters_narrow_the_entries(runner: Client) -> None:
    fill(3)
    fill(1, "ada", action="started", kind="sweep")
    day = timezone.localdate() - timedelta(days=1)
    for query, shown in {
        "?actor=eve": {"eve0", "eve1", "eve2"},
        "?actor=ev": set(),
        "?action=started": {"ada0"},
        "?kind=sweep": {"ada0"},
        "?key=eve1": {"eve1"},
        f"?actor=eve&since={day}": {"eve0", "eve1"},
        f"?until={day}": {"eve1", "eve2"},
        f"?since={day}&until={day}&actor=eve": {"eve1"},
    }.items():
        text = page(runner, query)
        assert {key for key in ("eve0", "eve1", "eve2", "ada0") if f"{key}<" in text} == shown, query
        found = runner.get(f"/audit/export/{query}").content.decode().splitlines()
        assert {json.loads(line)["key"] for line in found} - {""} == shown, query
    # Time zones end the first and the last day of the calendar beyond it.
    beyond = "?since=0001-01-01", "?until=9999-12-31"
    for query in ("?since=hello", "?action=hello", "?until=0000-00-00", "?kind=x", *beyond):
        answer = runner.get(f"/audit/{query}")
        assert answer.status_code == 422 and "No entry matches" in answer.content.decode()
        assert runner.get(f"/audit/export/{query}").content == b""


def test_pages_follow_a_cursor_with_the_same_few_queries(runner: Client) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(actor_kind="user", actor="eve", action="opened", kind="job", key=f"key{number}-")
        for number in range(PAGE * 2 + 1)
    )
    address, seen, counts = "?actor=eve", [], []
    for _number in range(3):
        with CaptureQueriesContext(connection) as queries:
            text = page(runner, address)
        counts.append(len(queries))
        seen += [number for number in range(PAGE * 2 + 1) if f">key{number}-<" in text]
        # Entries that are added meanwhile move none to another page.
        record(Action.OPENED, Audited.JOB)
        address = text.rpartition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert sorted(seen) == list(range(PAGE * 2 + 1)) and 'rel="next"' not in text
    assert len(set(counts)) == 1
    for position in ("0", "-1", "x", "9" * 40):
        page(runner, f"?before={position}")


def test_hostile_names_are_shown_as_text(runner: Client, terminal: Terminal) -> None:
    with acting_for({"kind": "user", "name": HOSTILE}):
        record(Action.OPENED, Audited.RUN, HOSTILE, HOSTILE)
    text = page(runner)
    assert "<script>alert" not in text and "\u202e" not in text
    for printed in (
        terminal.text("audit"),
        terminal.text("audit", "--jsonl"),
        terminal.text("audit", "--json"),
    ):
        assert not {"\u202e", "\x1b"} & set(printed)


def test_the_command_prints_lines_or_json(terminal: Terminal) -> None:
    fill(3)
    fill(1, "ada", action="started")
    lines = terminal.text("audit", "--who", "eve", "--days", "2").splitlines()
    assert ["eve1" in lines[0], "eve0" in lines[1], len(lines)] == [True, True, 2]
    found = [
        json.loads(line) for line in terminal.text("audit", "--action", "started", "--jsonl").splitlines()
    ]
    assert [(one["actor"], one["kind"], one["key"]) for one in found] == [("ada", "job", "ada0")]
    assert [one["key"] for one in terminal.document("audit", "--object", "eve2")["entries"]] == ["eve2"]
    assert AuditEntry.objects.filter(action="exported", kind="audit", actor_kind="terminal").count() == 3
