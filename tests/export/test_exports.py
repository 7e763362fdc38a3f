"""Exports of a run: complete, redacted, and harmless wherever they are opened."""

import json
import re
import subprocess
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
from viewer.cli.commands.checkpoints import dot_lines
from viewer.engines.contents import GraphEdge
from viewer.management import ForklineCommand
from viewer.models import Location, Run
from viewer.presentation.export import FORMATS
from viewer.presentation.run.graph import PlainGraph

pytestmark = pytest.mark.django_db
HOSTILE = "</pre><script>alert(1)</script>```"


def exported(reader: Client, run: Run, name: str) -> str:
    response = reader.get(reverse("run-export", args=[run.uid]), {"format": name})
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment;")
    return str(response.content.decode())


def test_json_holds_every_checkpoint_and_the_outputs_of_each_branch(
    reader: Client, crew_location: Location
) -> None:
    run = crew_location.runs.get()
    document = json.loads(exported(reader, run, "json"))
    assert {row["id"] for row in document["checkpoints"]} == set(
        run.checkpoints.values_list("checkpoint_id", flat=True)
    )
    assert {branch["name"] for branch in document["branches"]} == {"main", "exp-a"}
    assert all(branch["outputs"] and branch["inputs"] for branch in document["branches"])
    assert document["run"]["tokens"] == run.tokens and document["run"]["cost_in_dollars"] == run.cost


def test_branches_of_a_huge_run_are_left_out(
    reader: Client, crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crew_location.runs.get()
    heads = run.checkpoints.filter(is_branch_head=True).order_by("-row")
    newest, *others = heads.values_list("branch", "size")
    # Room for the newest branch and almost for the next one.
    for room in (newest[1] + others[0][1] - 1, 0):
        monkeypatch.setattr("viewer.presentation.export.MAX_BYTES", room)
        document = json.loads(exported(reader, run, "json"))
        assert [branch["name"] for branch in document["branches"]] == [newest[0]]
        assert document["branches_left_out"] == len(others) > 0
        assert len(document["checkpoints"]) == run.checkpoints.count()


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_loads_nothing_and_holds_no_key(reader: Client, crew_location: Location, name: str) -> None:
    text = exported(reader, crew_location.runs.get(), name)
    for forbidden in ("<script", "src=", "<link", "@import", "url(", "sk-", "Bearer "):
        assert forbidden not in text
    assert str(crew_location.path) not in text


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_texts_stay_texts(tmp_path: Path, settings: Any, reader: Client, name: str) -> None:
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
    text = exported(reader, location.runs.get(), name)
    if name in ("html", "svg"):
        assert "<script" not in text
    if name == "svg":
        ElementTree.fromstring(text)
    if name == "markdown":
        assert f"````\n{HOSTILE}\n````" in text
    if name == "json":
        assert HOSTILE in {part["value"] for part in json.loads(text)["branches"][0]["outputs"]}


LABELS = (
    '<<table><tr><td href="javascript:alert(1)">x</td></tr></table>>',
    "<b>x</b>",
    "<",
    "<x\n>",
    '"]; own [label="x" URL="javascript:alert(1)"];',
    '\\"]; own [URL="javascript:alert(1)"]; //',
    "\\N\\G\\l\\",
    "{a|<port>b}",
    "c1:n -> own",
    "digraph",
    "\x00\x1b]8;;javascript:alert(1)\x07x",
    "a\nb\r\nc\u2028d",
)


@pytest.mark.parametrize("text", LABELS)
def test_a_label_of_a_graph_adds_no_node_link_or_markup(crew_location: Location, text: str) -> None:
    run = crew_location.runs.get()
    run.checkpoints.update(branch=text, subject=text)
    run.checkpoints.filter(pk=run.checkpoints.latest("row").pk).update(trigger="")
    Run.objects.filter(pk=run.pk).update(name=text, entity="")
    graph = PlainGraph((text, "z"), (GraphEdge(text, "z", label=text),), {text: "ran"}, is_inferred=True)
    whole = FORMATS["dot"].write(Run.objects.get(pk=run.pk))
    for source, count in ((whole, run.checkpoints.count()), ("\n".join(dot_lines(graph)), 2)):
        drawn = subprocess.run(["dot", "-Tsvg"], input=source, stdout=subprocess.PIPE, text=True, check=True)
        assert drawn.stdout.count('class="node"') == count
        assert not re.search(
            r"<a\s|href=\"[^\"]", re.sub(r"<text.*?</text>|<title.*?</title>", "", drawn.stdout)
        )
        # Every label is a quoted text.
        assert not re.search(r"=\s*<|^\s*<", re.sub(r'"(?:[^"\\]|\\.)*"', '""', source), re.MULTILINE)


@pytest.mark.parametrize("name", FORMATS)
def test_standard_output_gets_the_file_and_no_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crew_location: Location, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    target = f"{crew_location.path}#{crew_location.checkpoints.all()[0].checkpoint_id}"
    before, out = set(tmp_path.rglob("*")), StringIO()
    call_command("checkpoints", "export", target, "--format", name, "--output", "-", stdout=out)
    text = out.getvalue()
    assert "\n" in text and "Wrote" not in text and set(tmp_path.rglob("*")) == before
    out = StringIO()
    call_command("checkpoints", "export", target, "--format", name, "--output", "-", "--json", stdout=out)
    document = json.loads(out.getvalue())
    assert document["text"].splitlines()[0] == text.splitlines()[0] and "file" not in document


def test_a_terminal_shows_an_export_without_control_characters() -> None:
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    for stdout, shown in ((Screen(), "a\n\\x1b[2Jb\n"), (StringIO(), "a\n\x1b[2Jb\n")):
        ForklineCommand(stdout=stdout).say_file("a\n\x1b[2Jb\n")
        assert stdout.getvalue() == shown


def test_an_unknown_format_is_not_found(reader: Client, crew_location: Location) -> None:
    address = reverse("run-export", args=[crew_location.runs.get().uid])
    assert reader.get(address, {"format": "exe"}).status_code == 404


def test_a_thread_is_exported_too(tmp_path: Path, settings: Any, reader: Client) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg12.db", tmp_path))
    run = location.runs.get(key="fan-forked")
    document = json.loads(exported(reader, run, "json"))
    assert len(document["checkpoints"]) == run.checkpoints.count() > 0
    assert any(branch["state"] for branch in document["branches"])
    ElementTree.fromstring(exported(reader, run, "svg"))


def test_the_terminal_writes_a_new_file_and_no_other(crew_location: Location, tmp_path: Path) -> None:
    first, file = crew_location.checkpoints.all()[0], tmp_path / "run.md"
    target = f"{crew_location.path}#{first.checkpoint_id}"
    out = StringIO()
    call_command("checkpoints", "export", target, "--format", "markdown", "--output", str(file), stdout=out)
    assert file.read_text().startswith("# research") and str(file) in out.getvalue()
    with pytest.raises(CommandError, match="already exists"):
        call_command("checkpoints", "export", target, "--output", str(file))
