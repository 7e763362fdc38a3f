"""Checkpoints of versions that nobody has seen yet: read as far as they are known, and the rest is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.engines.test_contents import VERSIONS, newest
from viewer.engines.crewai.contents import contents_of
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Location

NEWER = "2.3.0"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_known_version_is_understood(version: str) -> None:
    contents = contents_of(newest(version, "json" if version != "1.14.7" else "flow"))

    assert contents.unknown == ()
    assert not contents.is_of_newer_version


def newer(**changes: Any) -> dict[str, Any]:
    return {**newest("1.15.30", "json"), "crewai_version": NEWER, **changes}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, ()),
        ({"memory_graph": {"nodes": []}}, ("memory_graph",)),
        ({"entities": {"crew": {}}}, ("entities",)),
        ({"entities": [{"entity_type": "swarm", "id": "1"}]}, ("entities[0] (swarm)",)),
        ({"event_record": ["started"]}, ("event_record",)),
        ({"entities": [{"entity_type": "crew", "tasks": {}}]}, ("entities[0].tasks",)),
    ],
)
@pytest.mark.django_db
def test_a_newer_checkpoint_is_imported_and_its_unknown_parts_named(
    tmp_path: Path, admin_client: Client, changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    body = newer(**changes)
    (folder / "20270101T000000_0a1b2c3d_p-none.json").write_text(json.dumps(body))
    location = Location.objects.create(path=str(tmp_path), store_kind="json")

    summary = import_location(location)

    assert (summary.added, summary.problems) == (1, 0)
    assert Checkpoint.objects.get().engine_version == NEWER
    page = admin_client.get(Checkpoint.objects.get().get_absolute_url()).content.decode()
    assert f"Written by CrewAI {NEWER}, which is newer" in page
    assert all(f"<code>{part}</code>" in page for part in parts)
    contents = contents_of(body)
    assert contents.is_of_newer_version
    assert contents.unknown == parts


@pytest.mark.parametrize("body", [{"crewai_version": NEWER}, {"entities": 1}, {"event_record": {}}, []])
@pytest.mark.django_db
def test_json_that_is_no_checkpoint_is_still_foreign(tmp_path: Path, body: Any) -> None:
    (tmp_path / "notes.json").write_text(json.dumps(body))
    location = Location.objects.create(path=str(tmp_path), store_kind="json")

    assert import_location(location).added == 0
