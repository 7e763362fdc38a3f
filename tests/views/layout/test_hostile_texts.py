"""Script in every text of a checkpoint stays text, also in Markdown."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from viewer.engines.recorded_calls import call_name
from viewer.models import Run
from viewer.templatetags.forkline import markdown_as_html

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
TABS = ("overview", "tasks", "inputs", "state", "events", "raw")


def hostile(value: Any) -> Any:
    """Return the value with script in every text and every name of an input."""
    if isinstance(value, str):
        return SCRIPT + value
    if isinstance(value, list):
        return [hostile(item) for item in value]
    if isinstance(value, dict):
        kept = {"entity_type", "type", "timestamp", "event_id", "parent_id", "task_id", "started_event_id"}
        return {key: item if key in kept else hostile(item) for key, item in value.items()}
    return value


@pytest.fixture
def hostile_run(db: None, tmp_path: Path) -> Run:
    task = {
        "id": "t",
        "description": "d",
        "agent": {"role": "r"},
        "output": {"raw": "o", "description": "other"},
    }
    agents = [{"id": "a", "role": "r", "goal": "g", "backstory": "b", "llm": "m", "tools": [{"name": "n"}]}]
    crew: dict[str, Any] = {"entity_type": "crew", "id": "c", "name": "n", "tasks": [task], "agents": agents}
    crew["checkpoint_inputs"] = {SCRIPT: "v"}
    called: dict[str, Any] = {
        "type": "llm_call_completed",
        "event_id": "e",
        "timestamp": "2026-11-20T23:28:26Z",
        "model": "m",
    }
    called |= {"messages": [{"role": "user", "content": "q"}], "response": "a", "agent_role": "r"}
    tool = {"function": {"name": "n", "description": "d", "parameters": {"p": "q"}}}
    started = {**called, "type": "llm_call_started", "event_id": "s", "tools": [tool], "seed": "1"}
    called |= {"started_event_id": "s", "finish_reason": "stop"}
    body: dict[str, Any] = {
        "entities": [crew],
        "event_record": {"nodes": {"s": {"event": started}, "e": {"event": called, "edges": {}}}},
    }
    body |= {"branch": "b", "trigger": "task_completed", "parent_id": "20200101T000000_00000000"}
    body |= {"crewai_version": "1.15.30"}
    (tmp_path / "<b>x").mkdir()
    path = tmp_path / "<b>x" / "20261120T232826_35ce9d75_p-20200101T000000_00000000.json"
    path.write_text(json.dumps(hostile(body)))
    location = imported_location(tmp_path)
    return location.runs.get()


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("more", ["", "&as=source", "&view=graph"])
def test_no_script_of_a_checkpoint_becomes_markup(
    reader: Client, hostile_run: Run, tab: str, more: str
) -> None:
    at = hostile_run.checkpoints.get().checkpoint_id
    page = reader.get(f"{hostile_run.get_absolute_url()}?at={at}&tab={tab}{more}").content.decode()
    assert "alert(1)" in page
    for markup in ("<script>alert", "<img src=x", "<svg/onload", "<b>x"):
        assert markup not in page


def test_no_script_of_a_model_call_becomes_markup(reader: Client, hostile_run: Run) -> None:
    checkpoint = hostile_run.checkpoints.get()
    addresses = [
        reverse("checkpoint-calls", args=[checkpoint.pk]),
        reverse("checkpoint-call", args=[checkpoint.pk, call_name("s")]),
    ]
    for address in addresses:
        page = reader.get(address).content.decode()
        assert "alert(1)" in page and "not found" not in page
        assert not any(markup in page for markup in ("<script>alert", "<img src=x", "<svg/onload", "<b>x"))


def test_script_in_an_address_is_escaped(reader: Client, hostile_run: Run) -> None:
    page = reader.get(
        hostile_run.get_absolute_url(), {"at": SCRIPT, "tab": SCRIPT, "as": SCRIPT, SCRIPT: SCRIPT}
    )
    assert b"<script>alert" not in page.content and b"<img src=x" not in page.content


def test_pages_allow_no_inline_script_or_style(reader: Client, hostile_run: Run) -> None:
    answer = reader.get(hostile_run.get_absolute_url())
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    page = answer.content.decode()
    assert " style=" not in page and "<style" not in page and " onclick=" not in page


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**a** & b", "<p><strong>a</strong> &amp; b</p>\n"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("[x](https://a.b)", '<p><a href="https://a.b" rel="noopener noreferrer nofollow">x</a></p>\n'),
        ("- a", "<ul>\n<li>a</li>\n</ul>\n"),
    ],
)
def test_markdown_is_rendered_safely(text: str, html: str) -> None:
    assert markdown_as_html(text) == html


def test_a_text_too_long_for_markdown_is_shown_as_plain_text() -> None:
    text = "[a](javascript:x) **b** <b> `c`\n" * 10_000
    started = time.monotonic()
    html = markdown_as_html(text)
    assert time.monotonic() - started < 10
    assert "&lt;b&gt;" in html and "**b**" in html and "<b>" not in html


def test_a_page_of_many_long_texts_shows_them_as_plain_text(reader: Client, tmp_path: Path, db: None) -> None:
    output = {"raw": "**bold** " * 5000, "description": "d"}
    tasks = [{"id": f"t{number}", "description": "d", "output": output} for number in range(10)]
    crew = {"entity_type": "crew", "id": "c", "name": "n", "tasks": tasks}
    body = {"entities": [crew], "event_record": {"nodes": {}}, "crewai_version": "1.15.30"}
    (tmp_path / "20261120T232826_35ce9d75_p-none.json").write_text(json.dumps(body))
    location = imported_location(tmp_path)
    page = reader.get(location.runs.get().get_absolute_url() + "?tab=tasks").content.decode()
    assert "**bold**" in page and "<strong>bold" not in page


def test_markdown_loads_no_image() -> None:
    assert "<img" not in markdown_as_html("![x](https://tracker.example/x.png)")


def test_deeply_nested_markdown_is_rendered_quickly() -> None:
    assert markdown_as_html("> " * 5000 + "x")
    assert markdown_as_html("[" * 5000)
