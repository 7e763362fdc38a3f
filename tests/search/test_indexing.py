"""Texts are indexed in the background, once each, and only what is redacted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.search.indexed import found, index_all
from tests.views.forking import CREW, create_location, stored
from viewer.host.locations.adding import open_location, remove_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.search_index import MAX_TEXT, NewEntry, Superseded, entries_of, index_some, store
from viewer.models import (
    Checkpoint,
    Location,
    Project,
    Run,
    SearchedCheckpoint,
    SearchedLocation,
    SearchEntry,
)
from viewer.records.annotations import AnnotatedObject, annotate
from viewer.records.search import progress

pytestmark = pytest.mark.django_db


def test_texts_of_every_kind_are_found_at_their_checkpoint(crew_location: Location) -> None:
    assert progress() == (0, 6)
    index_all()
    assert progress() is None
    kinds = set(SearchEntry.objects.values_list("kind", flat=True))
    assert {"input", "output", "prompt", "message", "name"} <= kinds
    for entry in SearchEntry.objects.exclude(text="").select_related("checkpoint"):
        assert entry.checkpoint.location_id == crew_location.pk
        assert entry.query_string.startswith("tab=")


def test_a_repeated_text_is_one_entry_at_its_first_checkpoint(crew_location: Location) -> None:
    index_all()
    agent = [entry for entry in found("expert") if entry.kind == "prompt" and not entry.unit][-1]
    first = crew_location.checkpoints.order_by("pk").first()
    assert agent.checkpoint == first and agent.more == 5


def test_threads_are_read_at_their_source(threads: Callable[[str], Location]) -> None:
    location = threads("lg12")
    index_all()
    assert progress() is None
    assert any(entry.unit for entry in found("drafted"))
    assert SearchedCheckpoint.objects.filter(location=location).exists()
    assert not location.checkpoints.exclude(stored_copy=None).exists(), "Nothing is copied."


def test_what_has_not_changed_is_not_indexed_again(
    crew_location: Location, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    index_all()
    before = list(SearchEntry.objects.values_list("pk", "count"))
    SearchedLocation.objects.update(mark="")
    index_all()
    assert list(SearchEntry.objects.values_list("pk", "count")) == before
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        index_all()


def test_a_new_checkpoint_adds_only_what_is_new(tmp_path: Path) -> None:
    location = create_location(tmp_path / "newsroom")
    stored(location, CREW)
    index_all()
    before = set(SearchEntry.objects.values_list("pk", flat=True))
    stored(location, {**CREW, "checkpoint_inputs": {**CREW["checkpoint_inputs"], "topic": "oolong"}})
    index_all()
    added = SearchEntry.objects.exclude(pk__in=before)
    assert [entry.text for entry in added if entry.kind == "input"] == ["topic: oolong"]
    assert [entry.text for entry in found("oolong")] == ["topic: oolong"]


def test_indexing_continues_where_it_was_interrupted(
    crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.host.locations.search_index.MAX_CHECKPOINTS", 1)
    assert index_some(0)
    assert SearchedCheckpoint.objects.count() == 1
    index_all()
    assert SearchedCheckpoint.objects.count() == 6
    agent = [entry for entry in found("expert") if entry.kind == "prompt" and not entry.unit][-1]
    assert agent.count == 6


def test_a_changed_checkpoint_is_indexed_again(crew_location: Location) -> None:
    index_all()
    counts = sorted(SearchEntry.objects.values_list("text", "count"))
    newest = crew_location.checkpoints.latest("pk")
    Checkpoint.objects.filter(pk=newest.pk).update(fingerprint="another")
    SearchedLocation.objects.update(mark="")
    index_all()
    assert sorted(SearchEntry.objects.values_list("text", "count")) == counts
    assert SearchedCheckpoint.objects.get(pk=newest.pk).fingerprint == "another"


def test_only_redacted_texts_are_indexed(tmp_path: Path) -> None:
    location = create_location(tmp_path / "newsroom")
    stored(location, CREW)
    index_all()
    assert found("redacted") and not found("canary0123456789abcdefghij")
    assert "canary" not in json.dumps(list(SearchEntry.objects.values_list("text", flat=True)))


def test_a_secret_that_becomes_known_is_never_found_and_is_removed(tmp_path: Path) -> None:
    location = create_location(tmp_path / "newsroom")
    stored(location, {**CREW, "checkpoint_inputs": {"note": "Use blue-whale-north here."}})
    index_all()
    assert found("whale")
    environment = tmp_path / "newsroom" / ".env"
    environment.write_text("SERVICE_TOKEN=blue-whale-north\n")
    Project.objects.update(environment_file=str(environment))
    location = Location.objects.get()
    import_location(location)
    checkpoint = location.checkpoints.select_related("stored_copy").get()
    stale = Location.objects.get()
    stale.secrets_digest = ""
    with pytest.raises(Superseded):
        store(stale, [checkpoint])
    index_all()
    assert not found("whale") and found("redacted")
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM viewer_searchtext_data WHERE instr(block, CAST('whale' AS BLOB))"
            )
            assert cursor.fetchone() == (0,), "The index holds no words of deleted texts."


def test_the_entries_of_a_removed_location_are_removed(tmp_path: Path) -> None:
    location = create_location(tmp_path / "newsroom")
    stored(location, CREW)
    index_all()
    remove_location(location)
    index_all()
    assert not SearchEntry.objects.exists() and not SearchedCheckpoint.objects.exists()


def test_the_entries_of_a_missing_checkpoint_are_deleted(crew_location: Location) -> None:
    index_all()
    crew_location.checkpoints.earliest("pk").delete()
    SearchedLocation.objects.update(mark="")
    index_all()
    agent = [entry for entry in found("expert") if entry.kind == "prompt" and not entry.unit][-1]
    assert agent.count == 5 and agent.checkpoint == crew_location.checkpoints.earliest("pk")


def test_a_checkpoint_that_cannot_be_decoded_does_not_stop_the_others(
    crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = iter(range(6))

    def failing_once(location: Location, body: dict[str, Any]) -> list[NewEntry]:
        if next(bodies) == 0:
            raise RecursionError
        return entries_of(location, body)

    monkeypatch.setattr("viewer.host.locations.search_index.entries_of", failing_once)
    index_all()
    assert SearchedCheckpoint.objects.count() == 6 and SearchEntry.objects.exists()


def test_names_labels_and_notes_are_found_until_they_change(crew_run: Run) -> None:
    first = crew_run.checkpoints.earliest("row")
    annotate(AnnotatedObject(crew_run), None, name="The oolong run", labels=["final"])
    annotate(
        AnnotatedObject(crew_run, checkpoint_id=first.checkpoint_id), None, note="Ask **Ada** about sencha."
    )
    index_all()
    (note,) = found("sencha ada")
    assert (note.kind, note.checkpoint) == ("note", first)
    (name,) = found("oolong final")
    assert name.checkpoint == crew_run.checkpoints.latest("row")
    annotate(AnnotatedObject(crew_run, checkpoint_id=first.checkpoint_id), None, note="")
    annotate(AnnotatedObject(crew_run), None, name="The matcha run")
    index_all()
    assert not found("sencha") and not found("oolong") and found("matcha")


def test_long_and_odd_texts_are_cut_and_cleaned(tmp_path: Path) -> None:
    location = open_location(_folder(tmp_path))
    inputs = {"long": "tea " * MAX_TEXT, "marks": "a\x02b\x03c", "half": "\ud800"}
    body = {"entities": [{"entity_type": "crew", "name": "n", "tasks": [], "checkpoint_inputs": inputs}]}
    texts = [entry.text for entry in entries_of(location, body)]
    assert max(map(len, texts)) <= MAX_TEXT and "marks: a b c" in texts and "half: ?" in texts


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder
