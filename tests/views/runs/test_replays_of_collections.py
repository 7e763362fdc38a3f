"""The model calls of a collection are replayed as one group, and scored next to what was recorded."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from tests.clients import reading_client
from tests.terminal import Terminal
from tests.views.runs.test_replays import called, confirmed, with_messages  # noqa: F401
from viewer.host.jobs.following import queue_score
from viewer.host.jobs.starting import request_of
from viewer.host_requests import JobRefused
from viewer.models import Checkpoint, Collection, CollectionItem, Job, JobEvent, Location, Sweep
from viewer.presentation.calls import recorded_calls_of
from viewer.presentation.comparison_sides import scores_of
from viewer.records.collections import Subject, add_items, collection_named, recorded_scoring_of, scoring_of
from viewer.redaction import MARKER

pytestmark = pytest.mark.django_db


@pytest.fixture
def collection(called: Checkpoint) -> Collection:  # noqa: F811
    """Two calls, the second with an expected answer, their checkpoint, and a call that is lost."""
    collection = collection_named("teas", None)
    kind = CollectionItem.Kind.CALL
    for call, expected in zip(recorded_calls_of(called)[:2], ("", "Green <tea>."), strict=True):
        add_items(collection, [Subject(called, kind, call.name, call.agent)], None, expected=expected)
    add_items(collection, [Subject(called)], None, expected="of the checkpoint")
    CollectionItem.objects.create(
        collection=collection, kind=kind, location_uid=uuid4(), run_key="x", checkpoint_id="x", part="gone"
    )
    return collection


def address_of(collection: Collection, name: str = "collection-replay") -> str:
    return reverse(name, args=[collection.pk])


def sent(**fields: str) -> dict[str, str]:
    return {"key": str(uuid4()), "models": "openai/gpt-4o", "times": "1", "confirmed": "2"} | fields


def answered(job: Job, **answer: Any) -> None:
    """The replay has got this answer."""
    data = {"model": "openai/gpt-4o", "attempt": 1, "seconds": 1.5, "text": "", **answer}
    JobEvent.objects.create(job=job, seq=1, kind="call_replayed", data=data, at=job.created_at)
    job.end(Job.Status.SUCCEEDED)
    queue_score(job)


def test_each_call_is_replayed_once_and_scored_next_to_what_was_recorded(
    runner: Client, collection: Collection
) -> None:
    assert address_of(collection) in runner.get(collection.get_absolute_url()).content.decode()
    page = runner.get(address_of(collection)).content.decode()
    assert "Refused: 1" in page and "It was not found here." in page and "2 calls" in page
    fields = sent(score="judge:right", shown=re.findall(r'name="shown" value="(\w+)"', page)[0])
    part = runner.post(
        address_of(collection, "collection-replay-plan"), fields, headers={"HX-Request": "true"}
    ).content.decode()
    assert "This makes 2 model calls" in part and "<html" not in part and not Job.objects.exists()
    answers = [runner.post(address_of(collection), fields) for _twice in range(2)]
    group = Sweep.objects.get()
    assert [answer.headers["Location"] for answer in answers] == [group.get_absolute_url()] * 2
    assert (group.collection, group.score, group.label) == (collection, "judge:right", "Replayed calls")
    jobs = list(group.branches)
    recorded = recorded_scoring_of(jobs)
    assert [job.kind for job in jobs] == ["replay"] * 2 and len(recorded) == 2
    assert [recorded[job.pk].request.get("expected") for job in jobs] == [None, "Green <tea>."]
    for job, text in zip(jobs, ("Oolong.", "Black tea."), strict=True):
        answered(job, text=text)
    scoring = scoring_of(jobs)
    assert [scoring[job.pk].request.get("expected") for job in jobs] == [None, "Green <tea>."]
    assert jobs[0].checkpoint
    calls = recorded_calls_of(jobs[0].checkpoint)[:2]
    for job, call, text in zip(jobs, calls, ("Oolong.", "Black tea."), strict=True):
        old, new = (request_of(one)["contents"] for one in (recorded[job.pk], scoring[job.pk]))
        assert call.answer and old["answer"]["text"] == call.answer.text and new["answer"]["text"] == text
        assert (old["name"], old["model"]) == (call.name, call.model) and new["model"] == "openai/gpt-4o"
        assert new["messages"] == old["messages"] and new["messages"]
    for job, before, after in zip(jobs, (0.25, 1), (0.75, 0.5), strict=True):
        recorded[job.pk].end(Job.Status.SUCCEEDED, result=json.dumps(before))
        scoring[job.pk].end(Job.Status.SUCCEEDED, result=json.dumps(after))
    html = reading_client().get(group.get_absolute_url()).content.decode()
    assert "Mean difference 0, of 2 pairs." in html and "95 % confidence interval" in html
    assert "Green &lt;tea&gt;." in html and "of the checkpoint" not in html
    lines = [html.index(f'id="job-{job.pk}-answers-title"') for job in jobs]
    assert lines[1] < lines[0], "the loser is first"
    assert html.count(f"#job-{jobs[0].pk}-answers-title") == 1 and "1.5 s" in html
    # They are no scores of the checkpoint.
    assert scores_of([jobs[0].checkpoint]) == {}


@pytest.mark.parametrize("answer", [{"error": "RateLimitError"}, {"text": "Green", "is_cut": True}])
def test_no_answer_and_one_that_is_cut_are_not_scored(
    runner: Client, collection: Collection, answer: dict[str, Any]
) -> None:
    runner.post(address_of(collection), sent(score="judge:right"))
    job = Sweep.objects.get().branches[0]
    answered(job, **answer)
    assert scoring_of([job]) == {}
    scoring = recorded_scoring_of([job])[job.pk]
    scoring.request["scored_call"]["name"] = "gone"
    with pytest.raises(JobRefused, match="no whole answer"):
        request_of(scoring)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"confirmed": "1"}, "Confirm the number of model calls"),
        ({"models": ""}, "Name the models to which the calls are sent"),
        ({"models": "a, b", "confirmed": "4", "score": "judge:right"}, "A score compares one new answer"),
        ({"times": "2", "confirmed": "4", "score": "judge:right"}, "A score compares one new answer"),
        ({"score": "no function"}, "module:function"),
        ({"shown": "of another plan"}, "The plan has changed"),
    ],
)
def test_what_cannot_start_is_refused(
    runner: Client, collection: Collection, fields: dict[str, str], message: str
) -> None:
    answer = runner.post(address_of(collection), sent(**fields))
    assert answer.status_code == 422 and message in answer.content.decode() and not Job.objects.exists()


def test_several_models_are_called_several_times_without_a_score(
    runner: Client, collection: Collection
) -> None:
    assert (
        runner.post(address_of(collection), sent(models="a, b", times="2", confirmed="8")).status_code == 302
    )
    assert Job.objects.count() == 2 and not Sweep.objects.get().score


def test_each_call_runs_in_the_project_of_its_location(
    runner: Client,
    collection: Collection,
    called: Checkpoint,  # noqa: F811
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    uid = uuid4()
    other = Location.objects.create(path=str(tmp_path / "other"), uid=uid, store_kind="json", engine="crewai")
    copy = Checkpoint.objects.select_related("stored_copy").get(pk=called.pk)
    run, body = copy.run, copy.stored_copy
    run.pk, run.location, run.uid = None, other, uuid4()
    run.save()
    copy.pk, copy.location, copy.run, copy.parent = None, other, run, None
    copy.save()
    body.pk, body.checkpoint = None, copy
    body.save()
    CollectionItem.objects.filter(part=recorded_calls_of(called)[0].name).update(location_uid=uid)
    # The other location has no confirmed project.
    html = runner.get(address_of(collection)).content.decode()
    assert "Refused: 2" in html and "is not confirmed" in html and "1 call ·" in " ".join(html.split())
    (tmp_path / "second").mkdir()
    project = confirmed(other, tmp_path / "second")
    html = runner.get(address_of(collection)).content.decode()
    assert "Refused: 1" in html and f"/{other.name}</dt>" in html and project.folder in html
    assert runner.post(address_of(collection), sent()).status_code == 302
    jobs = Sweep.objects.get().branches
    assert {job.project for job in jobs} == {called.location.project, project}
    assert {job.location for job in jobs} == {called.location, other}


def test_a_call_with_a_redacted_secret_is_refused_and_no_secret_is_shown(
    runner: Client,
    collection: Collection,
    called: Checkpoint,  # noqa: F811
) -> None:
    secret = "sk-canary0123456789abcdefghij"
    runner.post(address_of(collection), sent(models=secret))
    assert secret not in reading_client().get(Sweep.objects.get().get_absolute_url()).content.decode()
    assert Sweep.objects.get().name == MARKER
    with_messages(called, [{"role": "user", "content": f"Use {MARKER}."}])
    html = unescape(runner.get(address_of(collection)).content.decode())
    assert "Refused: 3" in html and "The collection has no model call that can be replayed." in html


def test_a_read_only_user_starts_nothing(reader: Client, collection: Collection) -> None:
    assert reader.get(address_of(collection)).status_code == 403
    for name in ("collection-replay", "collection-replay-plan"):
        assert reader.post(address_of(collection, name), sent()).status_code == 403
    assert address_of(collection) not in reader.get(collection.get_absolute_url()).content.decode()
    assert not Job.objects.exists()


def test_the_terminal_plans_and_starts_the_same(collection: Collection, terminal: Terminal) -> None:
    command = ("replay", "--collection", "teas", "--models", "a", "--score", "judge:right")
    planned = terminal.document(*command, "--plan")
    assert [one["status"] for one in planned["replays"]] == ["planned", "planned", "refused"]
    assert planned["calls"] == 2 and not Job.objects.exists()
    started = terminal.refused(*command, "--limit", "tokens=50")
    assert started["error"] == "" and started["group"] == str(Sweep.objects.get().pk)
    assert [one["score"] for one in started["replays"]] == [None] * 3
    assert Sweep.objects.get().limits == {"tokens": 50} and len(Job.objects.filter(kind="score")) == 2
    for more in (("--all",), ("--project", "/tmp"), ("--tools", "[]"), ("--entrypoint", "a:b")):
        assert "name nothing else" in terminal.refused(*command, *more)["error"]
    assert "--collection" in terminal.refused("replay", "--models", "a")["error"]
    refused = terminal.refused("replay", "--collection", "none", "--models", "a")
    assert "none" in refused["error"] and Sweep.objects.count() == 1
