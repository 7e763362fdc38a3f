"""Exports of a run: complete, redacted, and harmless wherever they are opened."""

import json
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.access.login_links import teammate
from viewer.models import Location, Run
from viewer.presentation.export.formats import FORMATS

pytestmark = pytest.mark.django_db
HOSTILE = "</pre><script>alert(1)</script>```"


@pytest.fixture
def location(tmp_path: Path, settings: Any) -> Location:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported_location(copy_of("1.15.30/json", tmp_path))


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(teammate("reader"))
    return client


def exported(browser: Client, run: Run, name: str) -> str:
    response = browser.get(reverse("run-export", args=[run.uid]), {"format": name})
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment;")
    return str(response.content.decode())


def test_json_holds_every_checkpoint_and_the_outputs_of_each_branch(
    browser: Client, location: Location
) -> None:
    run = location.runs.get()
    document = json.loads(exported(browser, run, "json"))
    assert {row["id"] for row in document["checkpoints"]} == set(
        run.checkpoints.values_list("checkpoint_id", flat=True)
    )
    assert {branch["name"] for branch in document["branches"]} == {"main", "exp-a"}
    assert all(branch["outputs"] and branch["inputs"] for branch in document["branches"])
    assert document["run"]["tokens"] == run.tokens and document["run"]["cost_in_dollars"] == run.cost


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_loads_nothing_and_holds_no_key(browser: Client, location: Location, name: str) -> None:
    text = exported(browser, location.runs.get(), name)
    for forbidden in ("<script", "src=", "<link", "@import", "url(", "sk-", "Bearer "):
        assert forbidden not in text
    assert str(location.path) not in text


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_texts_stay_texts(tmp_path: Path, settings: Any, browser: Client, name: str) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = copy_of("1.15.30/json", tmp_path)
    for path in folder.rglob("*.json"):
        body = json.loads(path.read_text().replace("Write a summary", json.dumps(HOSTILE)[1:-1]))
        body["entities"][0]["name"] = HOSTILE
        for task in body["entities"][0]["tasks"]:
            if task["output"]:
                task["output"]["raw"] = HOSTILE
        path.write_text(json.dumps(body))
    location = imported_location(folder)
    text = exported(browser, location.runs.get(), name)
    if name in ("html", "svg"):
        assert "<script" not in text
    if name == "svg":
        ElementTree.fromstring(text)
    if name == "markdown":
        assert f"````\n{HOSTILE}\n````" in text
    if name == "json":
        assert HOSTILE in {part["value"] for part in json.loads(text)["branches"][0]["outputs"]}


def test_an_unknown_format_is_not_found(browser: Client, location: Location) -> None:
    address = reverse("run-export", args=[location.runs.get().uid])
    assert browser.get(address, {"format": "exe"}).status_code == 404


def test_a_thread_is_exported_too(tmp_path: Path, settings: Any, browser: Client) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg12.db", tmp_path))
    run = location.runs.get(key="fan-forked")
    document = json.loads(exported(browser, run, "json"))
    assert len(document["checkpoints"]) == run.checkpoints.count() > 0
    assert any(branch["state"] for branch in document["branches"])
    ElementTree.fromstring(exported(browser, run, "svg"))


def test_the_terminal_writes_a_new_file_and_no_other(location: Location, tmp_path: Path) -> None:
    target, file = f"{location.path}#{location.checkpoints.first().checkpoint_id}", tmp_path / "run.md"  # type: ignore[union-attr]
    out = StringIO()
    call_command("checkpoints", "export", target, "--format", "markdown", "--output", str(file), stdout=out)
    assert file.read_text().startswith("# research") and str(file) in out.getvalue()
    with pytest.raises(CommandError, match="already exists"):
        call_command("checkpoints", "export", target, "--output", str(file))
