"""The audit trail records who did what, and nobody can change it."""

import json
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoint_site.middleware.audit import pages
from tests.sharing.conftest import BROWSER, share
from tests.terminal import Terminal
from tests.views.conftest import location
from viewer.host_requests import JobRefused
from viewer.launching.start import request_cancel, start_job
from viewer.models import AuditEntry, AuditRetention, Job, Location, Run, ShareLink
from viewer.records.audit import Action, Audited, acting_for, actor_as_data, delete_before, record

__all__ = ["location"]
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
CHANGES = [
    "UPDATE viewer_auditentry SET actor = 'nobody'",
    "UPDATE viewer_auditentry SET result = 'done' WHERE id > 0",
    "DELETE FROM viewer_auditentry",
]
REPLACED = (
    "INSERT OR REPLACE INTO viewer_auditentry (id, at, actor_kind, actor, address, action, kind, key, detail,"
    " result) SELECT id, at, actor_kind, 'x', address, action, kind, key, detail, result"
    " FROM viewer_auditentry"
)


@pytest.fixture(autouse=True)
def _enabled(settings: LazySettings, db: None) -> None:
    settings.AUDIT = True


def acts() -> list[tuple[str, str, str]]:
    found = AuditEntry.objects.exclude(action="logged_in").order_by("pk")
    return list(found.values_list("action", "kind", "result"))


@pytest.mark.parametrize("statement", [*CHANGES, "replace"])
def test_an_entry_cannot_be_changed_or_deleted(statement: str) -> None:
    record(Action.OPENED, Audited.RUN, 1)
    if statement == "replace":
        statement = "TRUNCATE viewer_auditentry" if connection.vendor == "postgresql" else REPLACED
    before = list(AuditEntry.objects.values())
    with pytest.raises(DatabaseError, match="cannot be"), transaction.atomic():
        connection.cursor().execute(statement)
    assert list(AuditEntry.objects.values()) == before != []


def test_retention_deletes_old_entries_only_and_says_so() -> None:
    with acting_for({"kind": "server", "name": ""}):
        AuditEntry.objects.create(at=timezone.now() - timedelta(days=9), actor_kind="user", action="opened")
        record(Action.OPENED, Audited.RUN, "new")
        assert delete_before(5) == 1
    new, deletion = AuditEntry.objects.order_by("pk")
    assert new.key == "new" and not AuditRetention.objects.exists()
    assert (deletion.actor_kind, deletion.action, deletion.detail) == (
        "server",
        "pruned",
        "1 older than 5 days",
    )


@pytest.mark.parametrize("hours", [23, -24 * 400])
def test_no_retention_deletes_entries_of_the_last_day(hours: int) -> None:
    record(Action.OPENED, Audited.RUN)
    AuditEntry.objects.create(at=timezone.now() - timedelta(hours=23.5), actor_kind="user", action="opened")
    AuditRetention.objects.create(before=timezone.now() - timedelta(hours=hours))
    for entry in AuditEntry.objects.all():
        with pytest.raises(DatabaseError, match="cannot be"), transaction.atomic():
            entry.delete()


def test_a_start_and_its_entry_are_one_transaction(crew_run: Run, location: Location) -> None:
    checkpoint, project = crew_run.checkpoints.latest("row"), location.project
    job = start_job(checkpoint, project, Job.Kind.FORK, "what-if", {}, [])
    entry = AuditEntry.objects.get(action="started")
    assert (entry.kind, entry.key, entry.detail, entry.actor_kind) == ("job", str(job.pk), "fork", "terminal")
    with pytest.raises(JobRefused), transaction.atomic():
        start_job(checkpoint, project, Job.Kind.FORK, "another", {}, [])
        raise JobRefused("branch.exists", name="another")
    assert Job.objects.count() == AuditEntry.objects.filter(action="started").count() == 1
    assert request_cancel(job)
    assert not request_cancel(job)
    assert AuditEntry.objects.filter(action="cancelled").count() == 1


def test_what_a_page_opens_is_recorded_once(runner: Client, crew_run: Run) -> None:
    page, checkpoint = f"/runs/{crew_run.uid}/", crew_run.checkpoints.latest("row")
    runner.get(page)
    runner.get(f"{page}rows/")
    runner.get(page, headers={"HX-Request": "true", "HX-Target": "children"})
    boosted = {"HX-Request": "true", "HX-Boosted": "true", "HX-Target": "detail"}
    runner.get(f"{page}?at={checkpoint.checkpoint_id}", headers=boosted)
    found = AuditEntry.objects.filter(action="opened").order_by("pk")
    assert list(found.values_list("kind", "key")) == [
        ("run", str(crew_run.uid)),
        ("checkpoint", str(checkpoint.pk)),
    ]
    assert {(one.actor, one.actor_kind, one.address) for one in found} == {("runner", "user", "127.0.0.1")}


def test_a_part_or_a_download_cannot_be_requested_without_an_entry(runner: Client, crew_run: Run) -> None:
    pages.clear()
    checkpoint = crew_run.checkpoints.latest("row")
    detail = f"/runs/{crew_run.uid}/?at={checkpoint.checkpoint_id}"
    part = {"HX-Request": "true", "HX-Target": "detail"}
    for _time in range(2):
        runner.get(detail, headers=part)
        runner.get(reverse("checkpoint-raw", args=[checkpoint.pk]), headers=part)
    found = AuditEntry.objects.filter(action__in=["opened", "exported"]).order_by("pk")
    assert list(found.values_list("action", "key")) == [
        ("opened", str(checkpoint.pk)),
        ("exported", str(checkpoint.pk)),
        ("exported", str(checkpoint.pk)),
    ]


def test_no_entry_has_what_a_person_typed(runner: Client, crew_run: Run, terminal: Terminal) -> None:
    typed = "hunter2 lives here"
    checkpoint = crew_run.checkpoints.latest("row")
    place = f"{crew_run.location.path}#{checkpoint.checkpoint_id}"
    for address in (
        "search",
        f"runs/{crew_run.uid}",
        "compare",
        f"checkpoints/{checkpoint.pk}/calls/hunter2",
    ):
        names = ("q", "at", "a", "b", "branch", "format", "hunter2", "location", "part")
        runner.get(f"/{address}/", dict.fromkeys(names, typed), headers={"X-Forwarded-For": typed})
    runner.post(f"/runs/{crew_run.uid}/note/", {"name": typed, "note": typed, "labels": typed})
    runner.post(f"/search/saved/{typed}/", {"name": typed})
    runner.post("/locations/add/", {"path": f"/{typed}"})
    runner.post("/login/", {"username": typed, "password": typed})
    terminal.text("search", typed)
    terminal.text("note", place, "--name", typed)
    assert ("searched", "search", "done") in acts() and ("changed", "run", "done") in acts()
    assert AuditEntry.objects.filter(actor_kind="terminal", detail="q").exists()
    assert not [row for row in AuditEntry.objects.values_list() if "hunter2" in str(row)]


def test_a_refusal_is_recorded(reader: Client, crew_run: Run) -> None:
    assert reader.get("/shares/").status_code == 403
    assert reader.post(f"/checkpoints/{crew_run.checkpoints.latest('row').pk}/fork/").status_code == 403
    assert acts()[-2:] == [("opened", "share", "not_done"), ("started", "job", "not_done")]


def test_the_opening_of_a_share_link_is_recorded_without_its_token(client: Client, crew_run: Run) -> None:
    address = share("run", str(crew_run.uid))
    token, link = address.split("/")[2], ShareLink.objects.get()
    client.get(address, headers={"User-Agent": BROWSER})
    client.get("/shared/no-such-token/")
    client.post(f"/runs/{crew_run.uid}/note/", {"name": "x"})
    entry = AuditEntry.objects.latest("pk")
    assert (entry.actor_kind, entry.actor, entry.kind, entry.key) == (
        "share",
        str(link.pk),
        "share",
        str(link.pk),
    )
    assert not any(token in str(one) for one in AuditEntry.objects.values_list())


def test_logins_and_refused_logins_are_recorded(client: Client) -> None:
    User.objects.create_user("eve", password=SECRET)
    client.post("/login/", {"username": "eve", "password": "wrong"})
    client.post("/login/", {"username": "eve", "password": SECRET})
    client.post("/logout/")
    client.post("/login/link/?sesame=wrong")
    found = AuditEntry.objects.order_by("pk").values_list("action", "result", "actor_kind", "actor")
    assert list(found) == [
        ("logged_in", "not_done", "visitor", ""),
        ("logged_in", "done", "user", "eve"),
        ("logged_out", "done", "user", "eve"),
        ("logged_in", "not_done", "visitor", ""),
    ]


def test_nothing_is_recorded_without_the_setting(
    settings: LazySettings, runner: Client, crew_run: Run
) -> None:
    settings.AUDIT = False
    before = AuditEntry.objects.count()
    assert Client().get("/login/").status_code == 200
    runner.get(f"/runs/{crew_run.uid}/")
    share("run", str(crew_run.uid))
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize("hostile", ["\x1b[31m\n\r", "\u202egnp", "x" * 10_000, "<script>", "\x00"])
def test_hostile_names_are_stored_as_one_short_line(hostile: str) -> None:
    with acting_for({"kind": "user", "name": hostile, "address": hostile}):
        record(Action.OPENED, Audited.RUN, hostile, f"{hostile} {SECRET}")
    entry = AuditEntry.objects.get()
    assert len(entry.detail) <= 300 and len(entry.key) <= 200 and len(entry.actor) <= 150
    assert not {"\n", "\x1b", "\u202e", "\x00"} & {*entry.detail, *entry.key, *entry.actor, *entry.address}
    assert SECRET not in entry.detail


def test_another_host_records_whose_act_it_does() -> None:
    with acting_for({"kind": "user", "name": "ada", "address": "192.0.2.7"}):
        sent = json.loads(json.dumps(actor_as_data()))
    with acting_for(sent):
        record(Action.REMOVED, Audited.LOCATION)
    entry = AuditEntry.objects.get()
    assert (entry.actor_kind, entry.actor, entry.address) == ("user", "ada", "192.0.2.7")
