"""A model call is replayed from its page, once, after a person has confirmed the number of calls."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from quality.fuzz.job_events import data_of
from tests.clients import reading_client
from tests.engine_runs.model import TestModel, model_server
from tests.terminal import Terminal
from viewer.cli.running import run_here
from viewer.engines.recorded_calls import RecordedCall
from viewer.host.jobs.events import storable
from viewer.models import Checkpoint, Job, JobEvent, Location, Project, Run, Sweep
from viewer.presentation.calls import answers_of, call_views, recorded_calls_of
from viewer.records.bodies import stored_body
from viewer.redaction import MARKER
from viewer.stores.protocol import compressed
from viewer.web.live.feeds import JobFeed

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


def last_of(run: Run) -> Checkpoint:
    return run.checkpoints.filter(branch="main").latest("row")


def confirmed(location: Location, folder: Path, **values: Any) -> Project:
    """The project of the location, whose code a person permitted to run."""
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    project = Project(folder=str(folder))
    project.change(**{"interpreter": str(python), "environment_file": "", "entry_points": []} | values)
    project.confirm(None)
    Location.objects.filter(pk=location.pk).update(project=project)
    return project


@pytest.fixture
def called(crew_run: Run, tmp_path: Path) -> Checkpoint:
    """A checkpoint that records calls, in a confirmed project."""
    confirmed(crew_run.location, tmp_path)
    return Checkpoint.objects.select_related("location__project", "run").get(pk=last_of(crew_run).pk)


def call_of(checkpoint: Checkpoint) -> RecordedCall:
    return recorded_calls_of(checkpoint)[0]


def address_of(checkpoint: Checkpoint, name: str = "replay") -> str:
    return reverse(name, args=[checkpoint.pk, call_of(checkpoint).name])


def sent(checkpoint: Checkpoint, **fields: str) -> dict[str, str]:
    """The fields of the form as it is first shown."""
    count = len(call_of(checkpoint).messages)
    return {
        "key": str(uuid4()),
        "models": "openai/gpt-4o-mini",
        "times": "1",
        "confirmed": "1",
        "messages:call-TOTAL_FORMS": str(count),
        "messages:call-INITIAL_FORMS": str(count),
    } | fields


def with_secret(checkpoint: Checkpoint, text: str) -> None:
    """Have the messages of the calls contain this text."""
    with_messages(checkpoint, [{"role": "user", "content": text}])


def with_messages(checkpoint: Checkpoint, messages: list[dict[str, str]]) -> None:
    """Have the calls send these messages."""
    body = stored_body(checkpoint)
    for node in body["event_record"]["nodes"].values():
        if node["event"]["type"].startswith("llm_call"):
            node["event"]["messages"] = messages
    checkpoint.stored_copy.data = compressed(json.dumps(body).encode())
    checkpoint.stored_copy.save()


def test_the_form_says_how_many_calls_it_makes_and_what_the_recorded_one_cost(
    runner: Client, called: Checkpoint
) -> None:
    html = runner.get(address_of(called)).content.decode()
    assert "This makes 1 model call with the project&#x27;s keys." in html
    assert "20 tokens" in html and "$0.0000075" in html and not Job.objects.exists()
    assert "Your personal goal is" in html
    # The page of the call leads to it.
    page = runner.get(reverse("checkpoint-call", args=[called.pk, call_of(called).name])).content.decode()
    assert address_of(called) in page
    plan = sent(called, models="openai/a, openai/b", times="3")
    part = runner.post(address_of(called, "replay-plan"), plan, headers={"HX-Request": "true"})
    html = part.content.decode()
    assert "This makes 6 model calls" in html and 'value="6"' in html and "<html" not in html
    assert not Job.objects.exists()


def test_a_form_starts_one_job_even_if_it_is_sent_twice(runner: Client, called: Checkpoint) -> None:
    fields = sent(
        called,
        models="openai/a, openai/b",
        times="2",
        confirmed="4",
        parameters='{"temperature": 0}',
        limit_tokens="500",
        **{"messages:call-0-text": "Be brief."},
    )
    answers = [runner.post(address_of(called), fields) for _twice in range(2)]
    job = Job.objects.get()
    assert [answer.headers["Location"] for answer in answers] == [job.get_absolute_url()] * 2
    assert (job.kind, job.limits) == ("replay", {"tokens": 500})
    assert job.request["replay"]["models"] == ["openai/a", "openai/b"] and job.request["replay"]["times"] == 2
    call = job.request["call"]
    assert call["parameters"] == {"temperature": 0}
    recorded = [message.text for message in call_of(called).messages]
    assert [message["text"] for message in call["messages"]] == ["Be brief.", *recorded[1:]]


def test_nothing_starts_without_the_right_number_of_confirmed_calls(
    runner: Client, called: Checkpoint
) -> None:
    for confirmed_calls in ("", "1", "5"):
        answer = runner.post(address_of(called), sent(called, times="2", confirmed=confirmed_calls))
        assert answer.status_code == 422
        assert "Confirm the number of model calls" in answer.content.decode()
    assert not Job.objects.exists()


def refusal(answer: Any) -> str:
    assert answer.status_code == 422 and not Job.objects.exists()
    return str(answer.content.decode())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"times": "21", "confirmed": "21"}, "a whole number of 20 or less"),
        ({"models": "a, b, c", "times": "7", "confirmed": "21"}, "This would make 21 calls"),
        ({"models": "two words"}, "name is one word"),
        ({"parameters": '{"base_url": "http://elsewhere"}'}, "base_url cannot be set"),
        ({"parameters": "[]"}, "must be a JSON object"),
        ({"tools": '[{"description": 1}]'}, "Tools are a JSON list"),
        ({"tools": f'[{{"name": "{MARKER}"}}]'}, "marks a redacted secret"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    runner: Client, called: Checkpoint, fields: dict[str, str], message: str
) -> None:
    assert message in refusal(runner.post(address_of(called), sent(called, **fields)))


def test_a_limit_of_steps_is_refused_as_a_replay_has_none(
    runner: Client, called: Checkpoint, terminal: Terminal
) -> None:
    assert "limit_steps" not in runner.get(address_of(called)).content.decode()
    for options in (("--plan",), ()):
        refused = terminal.refused(
            "replay", called.target, call_of(called).name, "--limit", "steps=3", *options
        )
        assert refused["status"] == "refused" and "no steps" in refused["error"]
    assert not Job.objects.exists()


def test_a_redacted_secret_is_never_sent_in_place_of_the_secret(
    runner: Client, called: Checkpoint, terminal: Terminal
) -> None:
    with_secret(called, f"Use {MARKER} to log in.")
    html = refusal(runner.post(address_of(called), sent(called)))
    assert f"Message 1: {MARKER} is in place of a secret." in html
    edited = {"messages:call-0-text": f"Now use {MARKER}."}
    assert "marks a redacted secret" in refusal(runner.post(address_of(called), sent(called, **edited)))
    target = called.target
    refused = terminal.refused("replay", target, call_of(called).name)
    assert refused["status"] == "refused" and f"Message 1: {MARKER}" in refused["error"]
    removed = {"messages:call-0-text": "Log in."}
    assert runner.post(address_of(called), sent(called, **removed)).status_code == 302


def test_a_read_only_user_starts_nothing(reader: Client, called: Checkpoint) -> None:
    assert reader.get(address_of(called)).status_code == 403
    assert reader.post(address_of(called), sent(called)).status_code == 403
    assert reader.post(address_of(called, "replay-plan"), sent(called)).status_code == 403
    page = reader.get(reverse("checkpoint-call", args=[called.pk, call_of(called).name])).content.decode()
    assert address_of(called) not in page and not Job.objects.exists()


def test_nothing_starts_before_a_person_permits_the_projects_code(runner: Client, called: Checkpoint) -> None:
    Project.objects.update(confirmed_at=None)
    assert "/project/" in runner.get(address_of(called)).headers["Location"]
    assert "is not confirmed" in refusal(runner.post(address_of(called), sent(called)))


def test_the_edited_call_is_deleted_when_the_job_has_ended_except_what_is_no_secret(
    runner: Client, called: Checkpoint
) -> None:
    secret = "sk-canary0123456789abcdefghij"
    runner.post(address_of(called), sent(called, **{"messages:call-0-text": f"Use {secret}."}))
    job = Job.objects.get()
    assert secret in json.dumps(job.request["call"])
    job.end(Job.Status.FAILED)
    assert secret not in json.dumps(Job.objects.get().request)
    assert job.request["kept"]["call"].keys() == {"tools", "parameters", "models"}
    again = runner.get(f"{address_of(called)}?retry={job.pk}").content.decode()
    assert "Not saved because they may be secrets" in again and secret not in again


@pytest.mark.parametrize("status", [Job.Status.RUNNING, Job.Status.FAILED])
def test_a_secret_typed_as_a_models_name_is_shown_nowhere(
    runner: Client, called: Checkpoint, tmp_path: Path, status: Job.Status
) -> None:
    reader = reading_client()
    (tmp_path / ".env").write_text("SERVICE_TOKEN=bluewhalenorth\n")
    project = Project.objects.get()
    variables = str(tmp_path / ".env")
    project.change(interpreter=project.interpreter, environment_file=variables, entry_points=[])
    project.confirm(None)
    typed = ("sk-canary0123456789abcdefghij", "bluewhalenorth")
    runner.post(address_of(called), sent(called, models=f"{', '.join(typed)}, gpt-4o", confirmed="3"))
    job = Job.objects.get()
    # The runner gets what was typed.
    assert job.request["call"]["models"] == [*typed, "gpt-4o"]
    if status in Job.ENDED:
        job.end(status)
        assert not any(one in json.dumps(Job.objects.get().request) for one in typed)
    else:
        Job.objects.update(status=status)
    addresses = [
        job.get_absolute_url(),
        reverse("checkpoint-call", args=[called.pk, call_of(called).name]),
        reverse("jobs"),
        called.run.get_absolute_url(),
        reverse("job-answers", args=[job.pk]),
    ]
    for address in addresses:
        html = reader.get(address).content.decode()
        assert not any(one in html for one in typed), address
    again = runner.get(f"{address_of(called)}?retry={job.pk}").content.decode()
    assert not any(one in again for one in typed)
    assert "gpt-4o" in reader.get(addresses[1]).content.decode()


def test_the_page_shows_the_answers_next_to_the_recorded_one(reader: Client, called: Checkpoint) -> None:
    call = call_of(called)
    assert call.answer
    job = Job.objects.create(
        kind=Job.Kind.REPLAY,
        location=called.location,
        run=called.run,
        checkpoint=called,
        status="succeeded",
        request={"replay": {"recorded": call.name, "models": ["gpt-4o-mini"], "times": 2}},
    )
    shown: list[dict[str, Any]] = [
        {"text": call.answer.text, "tools": []},
        {"text": "<b>new</b>", "tools": [{"name": "send_email", "arguments": {"to": "bob"}}]},
        {"text": "", "tools": [], "error": "RateLimitError: slow down"},
    ]
    used = {"model": "gpt-4o-mini", "tokens": 20, "tokens_in": 10, "tokens_out": 10}
    for number, data in enumerate(shown, 1):
        events = [("model_completed", used), ("call_replayed", {"model": "m", "attempt": number, **data})]
        for at, (kind, one) in enumerate(events):
            JobEvent.objects.create(job=job, seq=2 * number + at, kind=kind, data=one, at=job.created_at)
    found = answers_of(job, call_views([call], called)[0])
    assert [answer.tokens for answer, _column in found.columns] == [20, 20, 20, 20]
    assert {str(answer.cost.amount) for answer, _column in found.columns} == {"7.5e-06"}
    html = reader.get(job.get_absolute_url()).content.decode()
    assert "Same as the recorded answer" in html and "RateLimitError: slow down" in html
    assert "<b>new</b>" not in html and "send_email" in html and "&quot;bob&quot;" in html
    assert "Recorded call" in html and "Replay again" not in html
    page = reader.get(reverse("checkpoint-call", args=[called.pk, call.name])).content.decode()
    assert job.get_absolute_url() in page and "RateLimitError: slow down" in page and "ws-connect" not in page
    part = reader.get(reverse("job-answers", args=[job.pk])).content.decode()
    assert "Same as the recorded answer" in part and "<html" not in part and "<b>new</b>" not in part
    assert part.strip() in html


@pytest.mark.parametrize("seed", range(20))
def test_pages_show_a_replay_that_reports_values_of_any_type(
    seed: int, reader: Client, called: Checkpoint
) -> None:
    chance, call = random.Random(seed), call_of(called)
    job = Job.objects.create(
        kind=Job.Kind.REPLAY,
        location=called.location,
        run=called.run,
        checkpoint=called,
        sweep=Sweep.objects.create(name="calls"),
        status="succeeded",
        request={"replay": {"recorded": call.name, "models": ["m"], "times": 2}},
    )
    for seq in range(1, 30):
        kind, data = chance.choice(("model_completed", "call_replayed")), storable(data_of(chance))
        JobEvent.objects.create(job=job, seq=seq, kind=kind, data=data, at=job.created_at)
    for address in (
        job.get_absolute_url(),
        reverse("job-answers", args=[job.pk]),
        reverse("checkpoint-call", args=[called.pk, call.name]),
        reverse("sweep", args=[job.sweep_id]),
    ):
        assert reader.get(address).status_code == 200


def test_pages_of_a_running_replay_fetch_each_new_answer(runner: Client, called: Checkpoint) -> None:
    runner.post(address_of(called), sent(called))
    job = Job.objects.get()
    Job.objects.update(status=Job.Status.RUNNING)
    page = runner.get(reverse("checkpoint-call", args=[called.pk, call_of(called).name])).content.decode()
    assert f"/ws/jobs/{job.pk}/?show=call" in page and "No model has answered yet." in page
    own, of_call, bar = (
        JobFeed(job.pk, 0, whole, True, of_call)
        for whole, of_call in ((True, False), (False, True), (False, False))
    )
    fetched = reverse("job-answers", args=[job.pk])
    assert [fetched in str(feed.next_message()) for feed in (own, of_call, bar)] == [True, True, False]
    JobEvent.objects.create(job=job, seq=1, kind="model_started", data={}, at=job.created_at)
    assert [fetched in str(feed.next_message()) for feed in (own, of_call, bar)] == [False] * 3
    JobEvent.objects.create(job=job, seq=2, kind="call_replayed", data={}, at=job.created_at)
    assert [fetched in str(feed.next_message()) for feed in (own, of_call, bar)] == [True, True, False]


def test_messages_that_are_too_long_for_a_form_are_sent_as_recorded(
    runner: Client, called: Checkpoint
) -> None:
    with_messages(called, [{"role": "user", "content": f"number {number}"} for number in range(1200)])
    html = runner.get(address_of(called)).content.decode()
    assert "too long for this form" in html and "messages:call-0-text" not in html
    fields = {name: text for name, text in sent(called).items() if not name.startswith("messages:")}
    assert runner.post(address_of(called), fields).status_code == 302
    assert len(Job.objects.get().request["call"]["messages"]) == 1200


def test_the_messages_have_no_heading_of_an_entry_of_a_state(runner: Client, called: Checkpoint) -> None:
    html = runner.get(address_of(called)).content.decode()
    assert html.count('aria-labelledby="replay-messages-title"') == 1 and "list of messages" not in html
    fields = sent(called) | {"add-message": "call"}
    part = runner.post(address_of(called, "replay-plan"), fields, headers={"HX-Request": "true"})
    assert "New message" in part.content.decode() and "list of messages" not in part.content.decode()
    for count in ("²", "9" * 5000, "-1"):
        odd = runner.post(address_of(called, "replay-plan"), fields | {"messages:call-TOTAL_FORMS": count})
        assert odd.status_code == 200, count


@pytest.fixture
def model() -> Iterator[TestModel]:
    with model_server() as server:
        yield server


@pytest.mark.django_db(transaction=True)
def test_a_replay_is_run_by_the_engine(
    crew_run: Run, tmp_path: Path, engine_python: Path, model: TestModel, terminal: Terminal, runner: Client
) -> None:
    variables = tmp_path / "environment"
    variables.write_text(f"OPENAI_BASE_URL={model.url}\nOPENAI_API_KEY=sk-canary0123456789abcdefghij\n")
    confirmed(crew_run.location, tmp_path, interpreter=str(engine_python), environment_file=str(variables))
    called = last_of(crew_run)
    name = call_of(called).name
    planned = terminal.document("replay", called.target, name, "--models", "openai/a,openai/b", "--plan")
    assert (planned["status"], planned["calls"]) == ("planned", 2) and not Job.objects.exists()
    edit = json.dumps({"edit": 1, "content": "Use the key sk-canary0123456789abcdefghij."})
    models = ("--models", "openai/gpt-4o-mini,openai/gpt-4o", "--times", "2")
    done = terminal.succeeded("replay", called.target, name, *models, "--message", edit)
    assert done["calls"] == 4 and [one["tokens"] for one in done["answers"]] == [12] * 4
    assert all(one["answer"]["text"].startswith("words ") for one in done["answers"])
    assert [one["model"] for one in model.requests] == ["gpt-4o-mini", "gpt-4o"] * 2
    # A person who types a secret sends it, and it is stored nowhere.
    assert "sk-canary" in json.dumps(model.requests[0]["messages"])
    job = Job.objects.get()
    assert job.tokens == 48 and job.cost is not None
    html = runner.get(job.get_absolute_url()).content.decode()
    assert html.count("words ") >= 4 and "sk-canary" not in html
    assert re.search(r"\$0\.0+", html)
    run_here(job)
    assert len(model.requests) == 4
