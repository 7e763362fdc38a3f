"""Checkpoints, messages and calls are collected, exported and imported."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.views.conftest import check, checkpoint, entity, location, person
from tests.views.forking import CREW, FLOW, SECRET, stored
from viewer.host_requests import ListPrunable, PruneRules, ask
from viewer.models import Checkpoint, Collection, CollectionItem, Location
from viewer.presentation.collections import added_texts, item_views
from viewer.records import collections
from viewer.records.accounts import teammate
from viewer.records.collections import (
    MAX_ERRORS,
    MAX_NOTE,
    NotCollected,
    NotImported,
    Subject,
    add_items,
    collection_named,
    import_items,
    items_in,
    lines_of,
)

__all__ = ["check", "checkpoint", "entity", "location", "person"]
MAX_ITEMS = 20
pytestmark = pytest.mark.django_db
LINE: dict[str, Any] = {"kind": "checkpoint", "location": str(uuid4()), "run": "r", "checkpoint": "c"}


@pytest.fixture
def collection() -> Collection:
    return collection_named("teas", None)


def imported(collection: Collection, *lines: Any) -> Any:
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return import_items(collection, items_in(data), None)


def test_selected_checkpoints_are_added_once(client: Client, person: User, checkpoint: Checkpoint) -> None:
    other = stored(checkpoint.location, FLOW)
    sent: dict[str, Any] = {"checkpoint": [checkpoint.pk, other.pk], "run": [str(checkpoint.run.uid)]}
    assert "news, main" in client.get(reverse("collection-add"), sent).content.decode()
    assert not Collection.objects.exists()
    form = sent | {"name": "teas", "note": "Too *long*.", "expected": "Green tea."}
    answer = client.post(reverse("collection-add"), form, follow=True).content.decode()
    assert "Added 2 items." in answer and "<em>long</em>" in answer and "Green tea." in answer
    again = client.post(reverse("collection-add"), form | {"note": "Other"}, follow=True).content.decode()
    assert "Added 0 items." in again and "Already in the collection: 2." in again
    assert {one.note for one in CollectionItem.objects.all()} == {"Too *long*."}
    assert CollectionItem.objects.filter(made_by=person).count() == 2


def test_secrets_in_notes_and_expected_answers_are_redacted(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    form = {"checkpoint": checkpoint.pk, "name": f"teas {SECRET}", "note": SECRET, "expected": SECRET}
    page = client.post(reverse("collection-add"), form, follow=True).content.decode()
    item = CollectionItem.objects.get()
    assert SECRET not in f"{page}{item.note}{item.expected}{item.collection}" and "[redacted]" in item.note
    form = {"note": f"so {SECRET}", "expected": f"so {SECRET}"}
    assert client.post(item.get_absolute_url(), form).status_code == 302
    imported(item.collection, {**LINE, "note": SECRET, "title": SECRET, "run": SECRET})
    assert SECRET not in "".join(lines_of(item.collection, ""))


def test_an_edit_does_not_overwrite_what_somebody_wrote_meanwhile(
    client: Client, person: User, collection: Collection, checkpoint: Checkpoint
) -> None:
    (item,) = add_items(collection, [Subject(checkpoint)], None)
    seen = client.get(item.get_absolute_url()).context["seen"]
    first = client.post(item.get_absolute_url(), {"note": "first", "seen": seen})
    second = client.post(item.get_absolute_url(), {"note": "second", "seen": seen})
    assert (first.status_code, second.status_code) == (302, 409)
    assert "first" in second.content.decode() and "second" in second.content.decode()
    item.refresh_from_db()
    assert item.note == "first"


def test_what_is_not_there_is_not_added(client: Client, person: User, checkpoint: Checkpoint) -> None:
    queries: tuple[dict[str, Any], ...] = (
        {"checkpoint": checkpoint.pk, "kind": "call", "part": "none"},
        {"checkpoint": checkpoint.pk, "kind": "message", "part": "messages:0"},
        {"checkpoint": checkpoint.pk, "kind": "message", "part": "messages:" + "9" * 5000},
        {"checkpoint": "999"},
        {"run": "x"},
        {},
        {"checkpoint": list(range(300))},
    )
    for query in queries:
        assert client.get(reverse("collection-add"), query).status_code == 200
        assert client.post(reverse("collection-add"), query | {"name": "teas"}).status_code == 422, query
    assert not CollectionItem.objects.exists()


def test_a_collection_is_renamed_and_deleted_with_its_items_only(
    client: Client, person: User, collection: Collection, checkpoint: Checkpoint
) -> None:
    add_items(collection, [Subject(checkpoint)], None)
    collection_named("coffees", None)
    address = reverse("collection-change", args=[collection.pk])
    assert client.post(address, {"name": "coffees"}).status_code == 422
    page = client.post(address, {"name": "green teas", "description": "*Good*"}, follow=True)
    assert "green teas" in page.content.decode() and "<em>Good</em>" in page.content.decode()
    client.post(reverse("collection-delete", args=[collection.pk]))
    assert not CollectionItem.objects.exists() and Checkpoint.objects.count() == 1


def test_read_only_users_see_a_collection_without_forms(
    client: Client, collection: Collection, checkpoint: Checkpoint
) -> None:
    (item,) = add_items(collection, [Subject(checkpoint)], None, note="Green")
    client.force_login(teammate("reader"))
    page = client.get(collection.get_absolute_url()).content.decode()
    assert "Green" in page and 'method="post" action="/items' not in page and "Import" not in page
    assert client.post(item.get_absolute_url(), {"note": "x"}).status_code == 403


def test_more_items_need_no_more_queries(
    client: Client, person: User, collection: Collection, checkpoint: Checkpoint
) -> None:
    counts = []
    for other in (FLOW, {**CREW, "checkpoint_kickoff_event_id": "other"}):
        add_items(collection, [Subject(checkpoint), Subject(stored(checkpoint.location, other))], None)
        with CaptureQueriesContext(connection) as queries:
            client.get(collection.get_absolute_url())
        counts.append(len(queries))
    assert counts[0] == counts[1]


# JSON Lines.


def test_an_export_is_imported_as_it_was(
    client: Client, person: User, collection: Collection, checkpoint: Checkpoint
) -> None:
    add_items(collection, [Subject(checkpoint, title="news")], None, "Note\nof two lines", "\u2028 expected")
    data = client.get(reverse("collection-export", args=[collection.pk])).content
    (line,) = data.splitlines()
    address = f"http://testserver{checkpoint.get_absolute_url()}"
    assert json.loads(line) == {
        "kind": "checkpoint",
        "location": str(checkpoint.location.uid),
        "run": checkpoint.run.key,
        "checkpoint": checkpoint.checkpoint_id,
        "title": "news",
        "note": "Note\nof two lines",
        "expected": "expected",
        "address": address,
    }
    other = collection_named("copy", None)
    sent = {"file": SimpleUploadedFile("teas.jsonl", data)}
    page = client.post(reverse("collection-import", args=[other.pk]), sent, follow=True).content.decode()
    assert "Added 1 item." in page and checkpoint.checkpoint_id in page
    assert list(lines_of(other, "http://testserver")) == [data.decode()]


def test_an_import_never_overwrites(collection: Collection, checkpoint: Checkpoint) -> None:
    add_items(collection, [Subject(checkpoint)], None, note="mine")
    (mine,) = map(json.loads, lines_of(collection, ""))
    found = imported(
        collection, mine, mine | {"note": "theirs"}, {**LINE, "note": "a"}, {**LINE, "note": "b"}
    )
    assert (found.added, found.present, list(found.kept)) == (1, 1, [2, 4])
    assert [one.note for one in collection.items.all()] == ["mine", "a"]


def test_an_item_of_another_installation_is_found_by_run_and_checkpoint(
    collection: Collection, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    named = {**LINE, "run": checkpoint.run.key, "checkpoint": checkpoint.checkpoint_id}
    imported(collection, named, LINE, named | {"location": str(uuid4()), "run": "another"})
    views = item_views(list(collection.items.all()))
    assert [view.checkpoint for view in views] == [checkpoint, None, None]
    assert [bool(view.address) for view in views] == [True, False, False]
    # In two locations it would be a guess.
    other = Location.objects.create(path=str(tmp_path), store_kind="json")
    stored(other, CREW)
    Checkpoint.objects.filter(location=other).update(checkpoint_id=checkpoint.checkpoint_id)
    assert item_views(list(collection.items.all()))[0].checkpoint is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "truncated"),
        (b"[]", "array"),
        (b'{"kind": "checkpoint"}', "location"),
        ({**LINE, "kind": "person"}, "one of checkpoint, message, call"),
        ({**LINE, "location": "x"}, "UUID"),
        ({**LINE, "notes": "x"}, "unknown field"),
        ({**LINE, "note": 5}, "Expected `str`"),
        ({**LINE, "note": "x" * (MAX_NOTE + 1)}, "note"),
        ({**LINE, "note": "a\0b"}, "note"),
        ({**LINE, "run": " "}, "run"),
        ({**LINE, "part": "x"}, "part"),
        ({**LINE, "kind": "call"}, "part"),
        (b'{"kind": "\xff"}', "UTF-8"),
        (b'{"kind": "\\ud800"}', "not an item"),
        (b'{"note": ' + b"[" * 100_000, "note"),
    ],
)
def test_a_faulty_line_is_named_and_nothing_is_imported(
    line: Any, reason: str, collection: Collection
) -> None:
    with pytest.raises(NotImported) as refused:
        imported(collection, LINE, b"", line)
    ((number, message),) = refused.value.errors
    assert number == 3 and reason.casefold() in str(message).casefold()
    assert not collection.items.exists()


def test_a_large_file_is_refused(
    client: Client, person: User, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collections, "MAX_ITEMS", MAX_ITEMS)
    with pytest.raises(NotCollected):
        imported(collection, *[b"{"] * (MAX_ITEMS + 1))
    with pytest.raises(NotImported) as refused:
        imported(collection, *[b"{"] * MAX_ITEMS)
    assert len(refused.value.errors) == MAX_ERRORS
    imported(collection, *[LINE | {"checkpoint": str(number)} for number in range(MAX_ITEMS)])
    with pytest.raises(NotCollected):
        imported(collection, LINE)
    sent = {"file": SimpleUploadedFile("x.jsonl", b"{\n" * 3)}
    page = client.post(reverse("collection-import", args=[collection.pk]), sent)
    assert page.status_code == 422 and page.content.decode().count("Line ") == 3
    assert client.post(reverse("collection-import", args=[collection.pk])).status_code == 422


def test_a_refused_name_of_a_new_collection_is_shown_with_the_reason(client: Client, person: User) -> None:
    name = "tea" * 100
    answer = client.post(reverse("collection-new"), {"name": name})
    page = answer.content.decode()
    assert answer.status_code == 422 and f'value="{name}"' in page and 'aria-invalid="true"' in page
    assert re.search(r'id="new-name-error">[^<]+<', page)
    assert not Collection.objects.exists()


def test_what_is_collected_is_not_pruned(collection: Collection, checkpoint: Checkpoint) -> None:
    newest = stored(checkpoint.location, CREW)
    assert checkpoint.run_id == newest.run_id
    listed = ask(ListPrunable(checkpoint.location_id, PruneRules(0, None, "", False)))
    add_items(collection, [Subject(checkpoint)], None)
    left = ask(ListPrunable(checkpoint.location_id, PruneRules(0, None, "", False)))
    assert (len(listed.rows), len(left.rows)) == (1, 0) and left.protected["annotated"] == 1
    # An item of another installation, whose checkpoint is here.
    CollectionItem.objects.update(location_uid=uuid4())
    assert not ask(ListPrunable(checkpoint.location_id, PruneRules(0, None, "", False))).rows


def test_one_line_that_differs_is_named_in_the_singular() -> None:
    assert added_texts(0, 1, [3])[-1].endswith("than line 3.")
    assert added_texts(0, 2, [3, 4])[-1].endswith("than lines 3, 4.")
