"""The page of one model call, and the list of those of a checkpoint."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.langgraph.conftest import opened, threads  # noqa: F401
from tests.terminal import Terminal
from viewer.engines import engine_of
from viewer.models import Checkpoint, Job, Location, Project, Run
from viewer.presentation.calls import MAX_MESSAGES, recorded_calls_of
from viewer.records.bodies import stored_body, stored_contents
from viewer.stores.packing import compressed

pytestmark = pytest.mark.django_db


@pytest.fixture
def last(crew_run: Run) -> Checkpoint:
    return crew_run.checkpoints.filter(branch="main").latest("row")


def page_of(client: Client, checkpoint: Checkpoint, name: str) -> str:
    answer = client.get(reverse("checkpoint-call", args=[checkpoint.pk, name]))
    assert answer.status_code == 200
    return answer.content.decode()


def list_of(client: Client, checkpoint: Checkpoint) -> str:
    return client.get(reverse("checkpoint-calls", args=[checkpoint.pk])).content.decode()


def test_a_call_shows_its_messages_answer_parameters_and_cost(reader: Client, last: Checkpoint) -> None:
    first, second, *_others = recorded_calls_of(last)
    html = page_of(reader, last, first.name)
    for text in ("gpt-4o-mini", "Your personal goal is", "Final Answer", "stop_sequences", "$0.0000075"):
        assert text in html, text
    assert "10 tokens in, 10 out" in html and reverse("checkpoint-call", args=[last.pk, second.name]) in html
    assert "sk-inline" not in html


def test_each_place_that_shows_a_call_links_to_its_page(reader: Client, last: Checkpoint) -> None:
    first = recorded_calls_of(last)[0]
    address = reverse("checkpoint-call", args=[last.pk, first.name])
    assert address in list_of(reader, last)
    query = {"at": last.checkpoint_id, "tab": "events", "internal": "1"}
    assert address in reader.get(last.run.get_absolute_url(), query).content.decode()
    timeline = reverse("run-timeline", args=[last.run.uid])
    html = reader.get(timeline, {"branch": "main", "span": first.id}).content.decode()
    (linked,) = re.findall(r'href="(/checkpoints/\d+/calls/\w+/)"', html)
    assert linked.endswith(f"/{first.name}/") and "Final Answer" in reader.get(linked).content.decode()


def test_a_checkpoint_without_calls_says_when_there_are_some(reader: Client, crew_run: Run) -> None:
    first = crew_run.checkpoints.earliest("row")
    assert "records no model calls" in list_of(reader, first)
    assert "Model call not found" in page_of(reader, first, "0123456789ab")


def with_messages(checkpoint: Checkpoint, messages: object) -> None:
    body = stored_body(checkpoint)
    for node in body["event_record"]["nodes"].values():
        if node["event"]["type"].startswith("llm_call"):
            node["event"]["messages"] = messages
    checkpoint.stored_copy.data = compressed(json.dumps(body).encode())
    checkpoint.stored_copy.save()


def test_a_call_without_messages_says_so(reader: Client, last: Checkpoint) -> None:
    with_messages(last, None)
    html = page_of(reader, last, recorded_calls_of(last)[0].name)
    assert "The messages of this call are not recorded" in html and "Final Answer" in html


def test_a_long_conversation_and_a_long_text_are_cut(reader: Client, last: Checkpoint) -> None:
    short = [{"role": "user", "content": f"number {at}."} for at in range(MAX_MESSAGES + 1)]
    with_messages(last, [*short, {"role": "user", "content": "tea " * 10_000}])
    html = page_of(reader, last, recorded_calls_of(last)[0].name)
    assert "2 older messages are left out" in html and "number 1." not in html and "number 2." in html
    assert "Cut: the text has 40,000 characters" in html


def test_a_checkpoint_whose_copy_was_deleted_says_so(reader: Client, last: Checkpoint) -> None:
    call = recorded_calls_of(last)[0]
    last.stored_copy.data = b""
    last.stored_copy.save()
    Checkpoint.objects.filter(pk=last.pk).update(state=Checkpoint.State.NO_COPY)
    for html in (list_of(reader, last), page_of(reader, last, call.name)):
        assert "cannot be shown" in html


def test_a_checkpoint_that_is_too_large_says_so(reader: Client, last: Checkpoint, settings: Settings) -> None:
    settings.CHECKPOINT_MAX_SHOWN_BYTES = 1
    for html in (list_of(reader, last), page_of(reader, last, "0123456789ab")):
        assert "too large or too deeply nested to show" in html and "records no model calls" not in html


def test_an_answer_of_a_thread_opens_from_its_message(
    reader: Client,
    threads: Callable[[str], Location],  # noqa: F811
) -> None:
    location = threads("lg12")
    for run in location.runs.filter(parent=None):
        opened(location, run.key)
        for checkpoint in run.checkpoints.all():
            query = {"at": checkpoint.checkpoint_id, "tab": "messages"}
            html = reader.get(run.get_absolute_url(), query).content.decode()
            if links := re.findall(r'href="(/checkpoints/\d+/calls/\w+/)"', html):
                page = reader.get(links[0]).content.decode()
                assert "records the conversation, not the request" in page
                edited = engine_of(location).editable(stored_contents(checkpoint))
                places = {
                    f"messages:{name}:{message.position}"
                    for name, messages in edited.conversations.items()
                    for message in messages
                    if message.role == "assistant"
                }
                assert places and places <= {call.part for call in recorded_calls_of(checkpoint)}
                return
    pytest.fail("No thread of the store has an answer.")


def test_the_terminal_lists_and_shows_calls(terminal: Terminal, last: Checkpoint) -> None:
    target = f"{last.location.path}#{last.checkpoint_id}"
    calls = terminal.document("call", target)["calls"]
    assert [one["name"] for one in calls] == [call.name for call in recorded_calls_of(last)]
    shown = terminal.document("call", target, calls[0]["name"])
    assert (shown["tokens_in"], shown["messages"][0]["role"]) == (10, "system")
    assert "Final Answer" in shown["answer"]["text"] and shown["cost"] == pytest.approx(7.5e-6)


@pytest.fixture
def forkable(last: Checkpoint, tmp_path: Path) -> Checkpoint:
    """The checkpoint in a project whose code a person permitted to run."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    project = Project(folder=str(tmp_path))
    project.change(interpreter=str(python), environment_file="", entry_points=[])
    project.confirm(None)
    Location.objects.filter(pk=last.location_id).update(project=project)
    return Checkpoint.objects.get(pk=last.pk)


def test_an_answer_opens_the_fork_form_as_the_edited_output(runner: Client, forkable: Checkpoint) -> None:
    call = recorded_calls_of(forkable)[0]
    (address,) = re.findall(r'href="([^"]*/fork/[^"]*)"', page_of(runner, forkable, call.name))
    html = runner.get(unescape(address)).content.decode()
    assert call.result and call.result.startswith("answer ") and "Final Answer" not in call.result
    (field,) = re.findall(rf'<textarea[^>]*name="output:{call.part.partition(":")[2]}"[^>]*>([^<]*)<', html)
    assert unescape(field).strip() == call.result
    assert not Job.objects.exists()


def test_an_answer_that_differs_from_the_output_is_an_edit(runner: Client, forkable: Checkpoint) -> None:
    body = stored_body(forkable)
    for node in body["event_record"]["nodes"].values():
        if node["event"]["type"] == "llm_call_completed":
            node["event"]["response"] = "Thought: …\nFinal Answer: another research"
    forkable.stored_copy.data = compressed(json.dumps(body).encode())
    forkable.stored_copy.save()
    call = recorded_calls_of(forkable)[0]
    query = {"edit": call.part, "call": call.name}
    html = runner.get(reverse("fork", args=[forkable.pk]), query).content.decode()
    assert "another research" in html and "edited" in html
    unchanged = runner.get(reverse("fork", args=[forkable.pk]), {"call": "unknown"}).content.decode()
    assert "another research" not in unchanged


def test_read_only_users_get_no_link_to_a_fork(reader: Client, forkable: Checkpoint) -> None:
    assert "/fork/" not in page_of(reader, forkable, recorded_calls_of(forkable)[0].name)
