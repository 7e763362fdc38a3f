"""Collections at the terminal: added to, listed, changed, exported and imported."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.real_stores import copy_of
from viewer.models import Checkpoint, Collection
from viewer.presentation.calls import recorded_calls_of

pytestmark = pytest.mark.django_db


def collection(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("checkpoints", "collection", *arguments, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    call_command("import_checkpoints", str(copy_of("1.15.30/json", tmp_path)), stdout=StringIO())
    return Checkpoint.objects.select_related("run", "location", "stored_copy").latest("row")


def test_a_collection_is_filled_exported_and_imported(checkpoint: Checkpoint, tmp_path: Path) -> None:
    call = recorded_calls_of(checkpoint)[0].name
    assert collection() == {"collections": []}
    added = collection("teas", "--add", checkpoint.target, "--expected", "Green")
    assert len(added["added"]) == 1
    collection("teas", "--add", checkpoint.target, "--call", call)
    assert collection("teas", "--add", checkpoint.target)["present"] == 1
    first, second = collection("teas")["items"]
    assert (first["target"], first["expected"]) == (checkpoint.target, "Green")
    assert (second["kind"], second["part"]) == ("call", call)
    (changed,) = collection("teas", "--item", str(first["id"]), "--note", "Better")["items"]
    assert (changed["note"], changed["expected"]) == ("Better", "Green")
    file = tmp_path / "teas.jsonl"
    collection("teas", "--export", str(file))
    assert collection("copy", "--import", str(file)) == {"added": 2, "present": 0, "kept_lines": []}
    assert collection("copy", "--import", str(file))["present"] == 2
    assert collection("copy", "--export", "-")["text"] == file.read_text()
    collection("teas", "--remove", str(first["id"]))
    collection("copy", "--delete")
    assert collection() == {"collections": [{"name": "teas", "description": "", "items": 1}]}


def test_what_is_wrong_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (file := tmp_path / "x.jsonl").write_text("{}\n[")
    for arguments, reason in (
        (["--delete"], "Name the collection first"),
        (["none"], "There is no collection none"),
        (["teas", "--note", "x"], "need --add or --item"),
        (["teas", "--call", "x"], "need --add"),
        (["teas", "--import", str(file)], "Line 2: "),
        (["teas", "--import", str(tmp_path)], "must be the path of a file"),
        (["teas", "--add", checkpoint.target, "--call", "x"], "does not record the call"),
        (["teas", "--add", checkpoint.target, "--message", "messages:0"], "has no message"),
    ):
        with pytest.raises(CommandError, match=reason):
            collection(*arguments)
    assert not Collection.objects.exists()
