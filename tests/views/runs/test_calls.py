"""The page of one model call, and the list of those of a checkpoint."""

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.clients import reading_client
from tests.langgraph.conftest import opened, threads  # noqa: F401
from tests.terminal import Terminal
from viewer.engines import engine_of
from viewer.engines.recorded_calls import RecordedCall
from viewer.models import Checkpoint, Job, JobEvent, Location, Project, Run
from viewer.presentation.calls import MAX_MESSAGES, recorded_calls_of
from viewer.records.bodies import stored_body, stored_contents
from viewer.stores.protocol import compressed

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


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


def confirmed(location: Location, folder: Path) -> None:
    """Give the location a project whose code a person permitted to run."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    project = Project(folder=str(folder))
    project.change(interpreter=str(python), environment_file="", entry_points=[])
    project.confirm(None)
    Location.objects.filter(pk=location.pk).update(project=project)


@pytest.fixture
def forkable(last: Checkpoint, tmp_path: Path) -> Checkpoint:
    """The checkpoint in a project whose code a person permitted to run."""
    confirmed(last.location, tmp_path)
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


def replayed(checkpoint: Checkpoint, call: RecordedCall, **answer: Any) -> Job:
    """An ended replay of the call with this answer."""
    job = Job.objects.create(
        kind=Job.Kind.REPLAY,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        status=Job.Status.SUCCEEDED,
        request={"replay": {"recorded": call.name, "models": ["m"], "times": 1}},
    )
    data = {"model": "m", "attempt": 1, "text": "", "tools": [], **answer}
    JobEvent.objects.create(job=job, seq=1, kind="call_replayed", data=data, at=job.created_at)
    return job


def fork_links(html: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'href="([^"]*/fork/[^"]*answer=[^"]*)"', html)]


def test_a_replayed_answer_opens_the_fork_form_as_the_edited_output(
    runner: Client, forkable: Checkpoint
) -> None:
    reader = reading_client()
    call = recorded_calls_of(forkable)[0]
    job = replayed(forkable, call, text="I know.\nFinal Answer: <b>quite</b> another")
    (address,) = fork_links(runner.get(job.get_absolute_url()).content.decode())
    assert fork_links(page_of(runner, forkable, call.name)) == [address]
    assert fork_links(runner.get(reverse("job-answers", args=[job.pk])).content.decode()) == [address]
    assert not fork_links(reader.get(job.get_absolute_url()).content.decode())
    html = runner.get(address).content.decode()
    (field,) = re.findall(rf'<textarea[^>]*name="output:{call.part.partition(":")[2]}"[^>]*>([^<]*)<', html)
    assert unescape(field).strip() == "<b>quite</b> another" and not Job.objects.filter(kind="fork").exists()
    # The answer of another call, of another job and without a number is not used.
    for answer in (f"{job.pk}:2", f"{job.pk}:x", "x:1", f"{uuid4()}:1", f"{job.pk}:{9**30}"):
        query = {"edit": call.part, "call": call.name, "answer": answer}
        assert "quite" not in runner.get(reverse("fork", args=[forkable.pk]), query).content.decode()
    other = {"edit": call.part, "call": recorded_calls_of(forkable)[1].name, "answer": f"{job.pk}:1"}
    assert "quite" not in runner.get(reverse("fork", args=[forkable.pk]), other).content.decode()


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "Final Answer: a part", "is_cut": True},
        {"error": "RateLimitError"},
        {"tools": [{"name": "search", "arguments": {"words": "tea"}}]},
    ],
)
def test_what_is_no_whole_output_is_not_used(
    runner: Client, forkable: Checkpoint, answer: dict[str, Any]
) -> None:
    call = recorded_calls_of(forkable)[0]
    job = replayed(forkable, call, **answer)
    assert not fork_links(runner.get(job.get_absolute_url()).content.decode())
    query = {"edit": call.part, "call": call.name, "answer": f"{job.pk}:1"}
    assert "a part" not in runner.get(reverse("fork", args=[forkable.pk]), query).content.decode()


def test_a_replayed_answer_takes_the_place_of_the_message_of_a_thread(
    runner: Client,
    threads: Callable[[str], Location],  # noqa: F811
    tmp_path: Path,
) -> None:
    location = threads("lg12")
    confirmed(location, tmp_path)
    checkpoint, call = next(called_threads(location))
    tools = [{"name": "search", "arguments": {"words": "<tea>"}, "id": "c9"}]
    job = replayed(checkpoint, call, text="A new answer.", tools=tools)
    (address,) = fork_links(runner.get(job.get_absolute_url()).content.decode())
    html = unescape(runner.get(address).content.decode())
    assert "A new answer." in html and '"<tea>"' in html and "1 changed, 0 removed, 0 added" in html


def called_threads(location: Location) -> Iterator[tuple[Checkpoint, RecordedCall]]:
    """Checkpoints of a location, each with a call whose answer is in its state."""
    for run in location.runs.filter(parent=None):
        opened(location, run.key)
        for checkpoint in run.checkpoints.select_related("location", "run", "stored_copy"):
            yield from ((checkpoint, call) for call in recorded_calls_of(checkpoint) if call.part)


def test_read_only_users_get_no_link_to_a_fork(reader: Client, forkable: Checkpoint) -> None:
    assert "/fork/" not in page_of(reader, forkable, recorded_calls_of(forkable)[0].name)
