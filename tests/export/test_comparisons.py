"""Exports of a comparison: complete, redacted, and harmless wherever they are opened."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.models import Run
from viewer.presentation import comparison
from viewer.presentation.comparison import SECTIONS
from viewer.presentation.comparison_sides import Comparison, Reference

pytestmark = pytest.mark.django_db
HOSTILE = "</pre><script>alert(1)</script>```"


@pytest.fixture
def run(tmp_path: Path, settings: Any) -> Run:
    """A run with two branches, of which one has a hostile output."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.glob("exp-a/*.json"):
        body = json.loads(path.read_text())
        for task in body["entities"][0]["tasks"]:
            if task["output"]:
                task["output"]["raw"] = HOSTILE
        path.write_text(json.dumps(body))
    location = imported_location(folder)
    return location.runs.get()


def exported(reader: Client, run: Run, name: str) -> Any:
    sides = [str(Reference(run.uid, branch=branch)) for branch in ("main", "exp-a")]
    return reader.get(reverse("compare-export"), {"a": sides[0], "b": sides[1], "format": name})


def test_json_holds_the_values_of_all_sides_and_times_in_utc(reader: Client, run: Run, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Seoul"
    response = exported(reader, run, "json")
    document = json.loads(response.content)
    assert [side["branch"] for side in document["sides"]] == ["main", "exp-a"]
    assert document["common_ancestor"] and document["rows_left_out"] == 0
    (created,) = [row for row in document["rows"] if row["name"] == "Created"]
    assert created["values"][0]["value"].endswith(f", {document['sides'][0]['created'][11:19]} UTC")
    outputs = [row for row in document["rows"] if row["section"] == "outputs"]
    assert any(row["values"][1].get("value") == HOSTILE and row["differs"] for row in outputs)
    assert {row["section"] for row in document["rows"]} >= {"overview", "inputs", "settings"}


@pytest.mark.parametrize("name", ["html", "markdown", "json"])
def test_a_file_loads_nothing_and_hostile_texts_stay_texts(reader: Client, run: Run, name: str) -> None:
    response = exported(reader, run, name)
    text = response.content.decode()
    assert response["Content-Disposition"].startswith("attachment;")
    for forbidden in ("src=", "<link", "@import", "url(", "sk-", "Bearer ", str(run.location.path)):
        assert forbidden not in text
    if name == "html":
        assert "<script" not in text and "&lt;script&gt;" in text and "exp-a" in text
        titles = re.findall("<h2>(.*?)</h2>", text)[1:]
        assert titles and all(title.split(": ")[0] in map(str, SECTIONS.values()) for title in titles)
    if name == "markdown":
        assert f"````\n{HOSTILE}\n````" in text
        rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
        assert all(": " in name for name in rows[1:]) and "| overview: Created" in rows


def test_an_unknown_format_is_not_found_and_one_side_asks_for_another(run: Run, reader: Client) -> None:
    assert exported(reader, run, "svg").status_code == 404
    assert reader.get(reverse("compare-export"), {"a": str(run.uid)}).status_code == 302


def test_values_that_are_too_long_are_counted_in_words(
    reader: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = comparison.exported
    for count, text in ((1, "1 value is too long"), (2, "2 values are too long")):

        def with_left_out(compared: Comparison, count: int = count) -> comparison.Exported:
            return replace(found(compared), left_out=count)

        monkeypatch.setattr(comparison, "exported", with_left_out)
        for name in ("markdown", "html"):
            assert text in exported(reader, run, name).content.decode()
