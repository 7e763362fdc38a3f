"""Pruning with the stored copies: only if the confirmed list says so, and nothing of them is left."""

import json
import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from tests.pruning.test_pages_and_commands import browser, listed
from tests.views.forking import CREW, create_location, stored
from viewer.engines.crewai.labels import KINDS
from viewer.host.locations.importing import import_location
from viewer.host.locations.pruning import PrunePlan, plan_prune, prune
from viewer.host.locations.search_index import index_some
from viewer.host_requests import NotReadable, PruneRefused, PruneRules
from viewer.launching.refusals import checkpoint_refusals, copy_refusals
from viewer.models import (
    Annotation,
    Checkpoint,
    Job,
    Location,
    PreflightCheck,
    SearchedCheckpoint,
    SearchEntry,
    ShareLink,
    StoredCopy,
)
from viewer.presentation.comparison import history_of
from viewer.presentation.share_links import Subject
from viewer.records.bodies import body_of, stored_body
from viewer.records.locations import removal_blocker

pytestmark = pytest.mark.django_db
ALL = PruneRules(days=0, copies=True)


def lineage(location: Location) -> list[tuple[Any, ...]]:
    columns = ("checkpoint_id", "parent__checkpoint_id", "parent_link", "branch", "lane", "row", "name")
    return list(location.checkpoints.order_by("row").values_list(*columns))


def pruned_with_copies(location: Location) -> PrunePlan:
    plan = plan_prune(location, ALL)
    done = prune(location, ALL, plan.digest)
    assert done.count == done.copies == len(plan.rows) > 0 and not done.kept
    return plan


def index_everything() -> None:
    while index_some(60):
        pass


def test_a_confirmation_includes_whether_copies_are_deleted(folder: Location) -> None:
    without, copies = plan_prune(folder, PruneRules(days=0)), plan_prune(folder, ALL)
    assert without.rows == copies.rows and without.digest != copies.digest
    for rules, digest in ((ALL, without.digest), (PruneRules(days=0), copies.digest)):
        with pytest.raises(PruneRefused):
            prune(folder, rules, digest)
    assert not folder.checkpoints.exclude(state=Checkpoint.State.PRESENT).exists()


def test_the_tree_and_what_people_wrote_survive(folder: Location) -> None:
    before, tokens = lineage(folder), folder.runs.get().tokens
    fork = folder.checkpoints.filter(branch="exp-a").order_by("row")[0]
    Annotation.objects.create(location_uid=folder.uid, run_key=fork.run.key, name="kept", is_starred=True)
    plan = pruned_with_copies(folder)
    import_location(folder)
    assert lineage(folder) == before and folder.runs.get().tokens == tokens
    assert Annotation.objects.get().name == "kept"
    assert {row.pk for row in plan.rows} == set(
        folder.checkpoints.filter(state=Checkpoint.State.NO_COPY).values_list("pk", flat=True)
    )
    assert removal_blocker(folder) == ""


def test_protected_checkpoints_keep_their_copies(folder: Location) -> None:
    plan = pruned_with_copies(folder)
    kept = folder.checkpoints.exclude(pk__in=[row.pk for row in plan.rows])
    assert all(body_of(row) for row in kept.select_related("stored_copy"))
    assert not StoredCopy.objects.filter(checkpoint__in=kept, data=b"").exists()


def test_the_contents_are_gone_from_the_database(folder: Location) -> None:
    rows = plan_prune(folder, ALL).rows
    PreflightCheck.objects.create(checkpoint=rows[0], project=folder_project(folder), fingerprint="f")
    index_everything()
    assert SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in rows]).count() == len(rows)
    plan = pruned_with_copies(folder)
    gone = [row.pk for row in plan.rows]
    assert not StoredCopy.objects.filter(pk__in=gone).exclude(data=b"").exists()
    assert not SearchedCheckpoint.objects.filter(pk__in=gone).exists()
    assert not SearchEntry.objects.filter(checkpoint__in=gone).exists()
    assert not PreflightCheck.objects.exists()
    index_everything()
    assert not SearchEntry.objects.filter(checkpoint__in=gone).exists()
    assert SearchEntry.objects.filter(location=folder).exclude(kind="note").exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM viewer_storedcopy WHERE length(data) = 0")
        assert cursor.fetchone() == (len(gone),)


def folder_project(location: Location) -> Any:
    from viewer.models import Project

    return Project.objects.create(folder=location.path)


def test_copies_of_checkpoints_that_were_pruned_before_are_listed(folder: Location) -> None:
    first = plan_prune(folder, PruneRules(days=0))
    prune(folder, PruneRules(days=0), first.digest)
    folder.refresh_from_db()
    assert not plan_prune(folder, PruneRules(days=0)).rows
    plan = plan_prune(folder, ALL)
    assert not plan.rows and {row.pk for row in plan.pruned} == {row.pk for row in first.rows}
    done = prune(folder, ALL, plan.digest)
    assert done.count == 0 and done.copies == len(first.rows)
    plan = plan_prune(folder, ALL)
    assert not plan.rows and not plan.pruned


def test_a_checkpoint_that_is_back_is_read_again(folder: Location) -> None:
    path = Path(folder.path) / plan_prune(folder, ALL).rows[0].source_key
    data = path.read_bytes()
    row = pruned_with_copies(folder).rows[0]
    with pytest.raises(NotReadable):
        body_of(folder.checkpoints.select_related("stored_copy").get(pk=row.pk))
    path.write_bytes(data)
    import_location(folder)
    again = folder.checkpoints.select_related("stored_copy").get(pk=row.pk)
    assert again.state == Checkpoint.State.PRESENT and stored_body(again)


def test_rows_of_a_database_lose_their_copies_as_well(database: Location) -> None:
    plan = pruned_with_copies(database)
    import_location(database)
    states = set(database.checkpoints.filter(pk__in=[row.pk for row in plan.rows]).values_list("state"))
    assert states == {(Checkpoint.State.NO_COPY,)}


def test_nothing_starts_from_it_and_the_reason_is_shown(folder: Location) -> None:
    row = pruned_with_copies(folder).rows[0]
    row.refresh_from_db()
    messages = [one.message for one in checkpoint_refusals(row, "crew:build", KINDS["crew"])]
    assert (
        messages == [one.message for one in copy_refusals(row)] and "stored copy was deleted" in messages[0]
    )
    for command in ("fork", "resume", "sweep"):
        with pytest.raises(CommandError, match="stored copy was deleted"):
            call_command("checkpoints", command, f"{folder.path}#{row.checkpoint_id}", stdout=StringIO())


TABS = ("overview", "tasks", "inputs", "state", "events", "raw")
PAGES = ("checkpoint", "checkpoint-raw", "checkpoint-history", "fork", "resume", "publish", "new-sweep")


def pages_of(row: Checkpoint) -> list[str]:
    """The addresses that show a checkpoint, or lead to something with it."""
    run, reference = row.run, f"{row.run.uid}/{row.checkpoint_id}"
    tabs = [f"{row.get_absolute_url()}&tab={tab}" for tab in TABS]
    newest = run.checkpoints.latest("row")
    return [
        *tabs,
        *(reverse(name, args=[row.pk]) for name in PAGES),
        *(f"{run.get_absolute_url()}?{query}" for query in ("pruned=shown", "view=graph", "collapse=all")),
        reverse("compare", query={"a": reference, "b": f"{run.uid}/{newest.checkpoint_id}"}),
        reverse("compare", query={"a": reference}),
        *(
            reverse("run-export", args=[run.uid], query={"format": one})
            for one in ("html", "json", "markdown")
        ),
        reverse("run-timeline", args=[run.uid], query={"branch": row.branch}),
        reverse("annotation", args=[run.uid], query={"at": row.checkpoint_id}),
        reverse("share", query={"kind": "checkpoint", "target": reference}),
        reverse("share-preview", args=[Subject(ShareLink.Kind.CHECKPOINT, reference).path]),
        reverse("search", query={"status": "pruned"}),
        *(reverse(name) for name in ("home", "stored-data", "locations")),
        reverse("location", args=[row.location.uid]),
    ]


def test_every_page_of_it_works_and_offers_no_start(folder: Location) -> None:
    client = browser("run")
    row = pruned_with_copies(folder).rows[0]
    row = Checkpoint.objects.select_related("run", "location").get(pk=row.pk)
    for address in pages_of(row):
        answer = client.get(address, follow=True)
        # The download says as plain text that there is no copy.
        missing = 404 if address.endswith("/raw/") else 200
        assert answer.status_code in (200, 422, 503, missing), (address, answer.status_code)
    html = client.get(row.get_absolute_url()).content.decode()
    assert "Pruned, no copy" in html and reverse("fork", args=[row.pk]) not in html


def test_the_forms_say_why_nothing_starts(tmp_path: Path) -> None:
    row = stored(create_location(tmp_path / "newsroom"), CREW)
    StoredCopy.objects.filter(pk=row.pk).update(data=b"")
    Checkpoint.objects.filter(pk=row.pk).update(state=Checkpoint.State.NO_COPY)
    client = browser("run")
    for name in ("fork", "resume", "new-sweep"):
        html = client.get(reverse(name, args=[row.pk])).content.decode()
        assert "stored copy was deleted" in html, name
    sent = client.post(reverse("fork", args=[row.pk]), {"branch": "b", "key": str(uuid.uuid4())})
    assert sent.status_code in (200, 409, 422) and not Job.objects.exists()


def test_a_history_shows_what_cannot_be_read(folder: Location) -> None:
    pruned_with_copies(folder)
    newest = folder.runs.get().checkpoints.latest("row")
    assert history_of(newest, "outputs-nothing").unreadable > 0


def test_a_page_lists_and_deletes_copies_only_if_chosen(folder: Location) -> None:
    import re

    client: Client = browser("run")
    address = reverse("prune", args=[folder.uid])
    html = client.get(address, {"days": "0", "copies": "on"}).content.decode()
    assert "Their stored copies are deleted as well" in html
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html))
    assert form["copies"] == "on"
    # Without the choice, the digest is that of another list.
    assert client.post(address, {**form, "copies": ""}).status_code == 422
    assert client.post(address, form).status_code == 302
    assert folder.checkpoints.filter(state=Checkpoint.State.NO_COPY).exists()


def test_the_terminal_deletes_copies_only_with_the_option(folder: Location) -> None:
    found = listed(folder.path, "--days", "0", "--delete-copies")
    assert found["delete_copies"] and found["copies_of_pruned"] == []
    with pytest.raises(CommandError, match="has changed"):
        listed(folder.path, "--days", "0", "--confirm", found["digest"])
    done = listed(folder.path, "--days", "0", "--delete-copies", "--confirm", found["digest"])
    assert done["copies_deleted"] == done["deleted"] == len(found["checkpoints"]) > 0
    assert json.dumps(done)
    assert not folder.checkpoints.filter(
        Q(stored_copy__data=b"") & ~Q(state=Checkpoint.State.NO_COPY)
    ).exists()


def deleted(location: Location) -> Path:
    """Delete the location's file or folder, keep it next to its place, and return where it is kept."""
    kept = Path(f"{location.path}.kept")
    Path(location.path).rename(kept)
    import_location(location)
    location.refresh_from_db()
    return kept


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_all_copies_of_a_deleted_location_can_be_deleted(kind: str, request: pytest.FixtureRequest) -> None:
    location: Location = request.getfixturevalue(kind)
    pks = set(location.checkpoints.values_list("pk", flat=True))
    kept, before = deleted(location), lineage(location)
    assert location.read_error and removal_blocker(location)
    with pytest.raises(PruneRefused, match="no longer exists"):
        prune(location, PruneRules(days=0), plan_prune(location, PruneRules(days=0)).digest)
    plan = plan_prune(location, ALL)
    assert not plan.rows and {row.pk for row in plan.pruned} == pks and not plan.protected
    done = prune(location, ALL, plan.digest)
    assert (done.count, done.copies) == (0, len(pks))
    assert lineage(location) == before and not StoredCopy.objects.exclude(data=b"").exists()
    assert removal_blocker(location) == ""
    # Checkpoints that are back, such as on a disk that is connected again, are read again.
    kept.rename(location.path)
    import_location(location)
    assert set(location.checkpoints.values_list("state", flat=True)) == {Checkpoint.State.PRESENT}
    assert StoredCopy.objects.exclude(data=b"").count() == len(pks)


def test_a_location_that_is_back_refuses_the_list_of_copies(folder: Location) -> None:
    kept = deleted(folder)
    digest = plan_prune(folder, ALL).digest
    kept.rename(folder.path)
    with pytest.raises(PruneRefused, match="has changed since"):
        prune(folder, ALL, digest)
    assert not StoredCopy.objects.filter(data=b"").exists()


def test_a_location_that_only_cannot_be_read_keeps_its_copies(database: Location) -> None:
    data = Path(database.path).read_bytes()
    Path(database.path).write_bytes(b"no database" * 100)
    import_location(database)
    database.refresh_from_db()
    assert database.read_error
    with pytest.raises(PruneRefused):
        prune(database, ALL, plan_prune(database, ALL).digest)
    Path(database.path).write_bytes(data)
    assert not StoredCopy.objects.filter(data=b"").exists()


def test_what_people_wrote_about_protects_the_copies_of_a_deleted_location(folder: Location) -> None:
    row = folder.checkpoints.order_by("row")[0]
    Annotation.objects.create(location_uid=folder.uid, checkpoint_id=row.checkpoint_id, note="Why?")
    deleted(folder)
    plan = plan_prune(folder, ALL)
    assert plan.protected == {"annotated": 1} and row.pk not in {one.pk for one in plan.pruned}


def test_the_page_and_the_terminal_delete_the_copies_of_a_deleted_location(folder: Location) -> None:
    import re

    deleted(folder)
    client = browser("run")
    assert "Delete stored copies" in client.get(reverse("location", args=[folder.uid])).content.decode()
    address = reverse("prune", args=[folder.uid])
    html = client.get(address, {"branch": "main", "days": "0"}).content.decode()
    assert "no longer exists" in html
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html))
    assert client.post(address, form).status_code == 302
    found = listed(folder.path, "--days", "0", "--delete-copies")
    assert found["checkpoints"] == [] and len(found["copies_of_pruned"]) == 2
    done = listed(folder.path, "--days", "0", "--delete-copies", "--confirm", found["digest"])
    assert (done["deleted"], done["copies_deleted"]) == (0, 2)
    assert not StoredCopy.objects.exclude(data=b"").exists()
