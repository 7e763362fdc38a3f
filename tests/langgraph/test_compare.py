"""Comparisons of threads."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.clients import reading_client
from tests.langgraph.conftest import opened
from tests.views.runs.test_replays import confirmed
from viewer.engines import engine_of
from viewer.engines.contents import Section, part_id
from viewer.models import Job, Location, StoredCopy
from viewer.presentation.comparison import table_of
from viewer.presentation.comparison_sides import Reference, compared, reference_to
from viewer.records.bodies import stored_body, stored_contents
from viewer.stores.protocol import compressed
from viewer.web.launch.conversations import content_text
from viewer.web.launch.prefilled import differing_messages

pytestmark = pytest.mark.postgresql


def test_the_steps_of_a_thread_are_compared_by_node_and_message(threads: Callable[[str], Location]) -> None:
    location = threads("lg12")
    for run in location.runs.filter(parent=None):
        opened(location, run.key)
        rows = list(run.checkpoints.order_by("row"))
        found = compared([str(reference_to(rows[0])), str(Reference(run.uid))])
        assert not any(side.problem for side in found.sides)
        sections = {key[0] for key in found.sides[-1].parts}
        assert sections & {Section.STATE, Section.MESSAGES}, run.key
        groups = table_of(found.sides, shows_same=True)
        assert all(len(row.cells) == len(found.sides) for group in groups for row in group.rows)


@pytest.mark.parametrize("version", ["lg02_76", "lg06"])
def test_threads_of_any_version_are_compared(
    reader: Client, threads: Callable[[str], Location], version: str
) -> None:
    runs = threads(version).runs.filter(parent=None)[:2]
    query = {"a": str(runs[0].uid), "b": str(runs[1].uid)}
    html = reader.get(reverse("compare"), query).content.decode()
    assert "compare-table" in html and "cannot be read" not in html


def test_a_message_of_one_thread_opens_the_fork_form_of_the_other(
    runner: Client, threads: Callable[[str], Location], tmp_path: Path
) -> None:
    location = threads("lg06")
    confirmed(location, tmp_path / "project")
    for run in location.runs.filter(parent=None):
        opened(location, run.key)
    with_messages = [
        one
        for one in location.checkpoints.select_related("run", "location").order_by("-row")
        if engine_of(location).editable(stored_contents(one)).conversations
    ]
    mine, theirs = [one for one in with_messages if one.run_id == with_messages[0].run_id][:2]
    (entry, messages) = next(iter(engine_of(location).editable(stored_contents(mine)).conversations.items()))
    text = content_text(messages[0])
    body = json.dumps(stored_body(mine)).replace(json.dumps(text), json.dumps(f"{text} <b>again</b>"))
    # A copy without a fingerprint is shown instead of the source.
    values = {"data": compressed(body.encode()), "fingerprint": ""}
    StoredCopy.objects.update_or_create(checkpoint=mine, defaults=values)
    mine.refresh_from_db()
    read = {one.pk: stored_contents(one) for one in (mine, theirs)}
    sides = {"a": str(reference_to(theirs)), "b": str(reference_to(mine))}
    query = {**sides, "row": part_id(Section.MESSAGES, entry, "")}
    html = runner.get(reverse("compare"), query).content.decode()
    parts = differing_messages(entry, read[mine.pk], read[theirs.pk])
    links = [unescape(one) for one in re.findall(rf'href="(/checkpoints/{theirs.pk}/fork/[^"]+)"', html)]
    assert len(links) == len(parts) and "Use in a fork of the baseline:" in html
    number, part = next(iter(parts.items()))
    position = number - 1
    message = engine_of(mine.location).editable(read[mine.pk]).conversations[entry][position]
    shown = runner.get(links[0]).content.decode()
    (field,) = re.findall(rf'<textarea[^>]*name="messages:{entry}-{position}-text"[^>]*>([^<]*)<', shown)
    assert unescape(field).strip() == content_text(message).strip()
    assert not Job.objects.exists()
    reader = reading_client()
    assert "/fork/?" not in reader.get(reverse("compare"), sides).content.decode()
    for value in (f"{mine.pk}:messages:{entry}:999", f"{theirs.pk}:{part}", f"{mine.pk}:messages:", "9:x"):
        answer = runner.get(links[0].partition("?")[0], {"edit": part, "value": value})
        assert answer.status_code == 200 and "1 changed" not in answer.content.decode()
