"""All model calls of a branch are replayed as one group of jobs, once, after a person has confirmed them."""

import json
import re
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from tests.clients import reading_client
from tests.terminal import Terminal
from tests.views.runs.test_replays import call_of, called, with_messages  # noqa: F401
from viewer.launching import replay
from viewer.models import Checkpoint, Job, JobEvent, Project, Sweep
from viewer.presentation.calls import recorded_calls_of
from viewer.records.hosts import next_job
from viewer.redaction import MARKER

pytestmark = pytest.mark.django_db


def address_of(checkpoint: Checkpoint, name: str = "replay-all") -> str:
    return reverse(name, args=[checkpoint.pk])


def sent(checkpoint: Checkpoint, **fields: str) -> dict[str, str]:
    """The form for one other model, with the number of calls confirmed."""
    count = str(len(recorded_calls_of(checkpoint)))
    return {"key": str(uuid4()), "models": "openai/gpt-4o", "times": "1", "confirmed": count} | fields


def test_the_plan_says_how_many_calls_it_makes_and_what_they_cost_before(
    runner: Client,
    called: Checkpoint,  # noqa: F811
) -> None:
    count = len(recorded_calls_of(called))
    assert count > 1
    for page in (reverse("checkpoint-calls", args=[called.pk]), called.get_absolute_url()):
        assert address_of(called) in runner.get(page, follow=True).content.decode()
    without = next(one for one in called.run.checkpoints.order_by("row") if not recorded_calls_of(one))
    assert address_of(without) not in runner.get(without.get_absolute_url()).content.decode()
    html = runner.get(address_of(called)).content.decode()
    assert f"{20 * count} tokens" in html and not Job.objects.exists()
    fields = sent(called, models="a, b", times="3")
    part = runner.post(address_of(called, "replay-all-plan"), fields, headers={"HX-Request": "true"})
    html = part.content.decode()
    assert f"This makes {6 * count} model calls" in html and "<html" not in html
    assert f'value="{6 * count}"' in html and "limit_steps" not in html and not Job.objects.exists()


def test_a_form_starts_a_job_for_each_call_once(
    runner: Client,
    called: Checkpoint,  # noqa: F811
) -> None:
    calls = recorded_calls_of(called)
    fields = sent(called, limit_tokens="500")
    answers = [runner.post(address_of(called), fields) for _twice in range(2)]
    group = Sweep.objects.get()
    assert [answer.headers["Location"] for answer in answers] == [group.get_absolute_url()] * 2
    assert (group.name, group.limits, group.is_of_calls) == ("openai/gpt-4o", {"tokens": 500}, True)
    jobs = list(group.branches)
    assert [job.request["replay"]["recorded"] for job in jobs] == [call.name for call in calls]
    assert [job.kind for job in jobs] == ["replay"] * len(calls)
    assert jobs[0].request["call"]["messages"][0]["text"] == calls[0].messages[0].text
    # Changed content is another group.
    assert runner.post(address_of(called), fields | {"models": "openai/gpt-4"}).status_code == 302
    assert Sweep.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"confirmed": "1"}, "Confirm the number of model calls"),
        ({"confirmed": ""}, "Confirm the number of model calls"),
        ({"models": ""}, "Name the models to which the calls are sent"),
        ({"models": "two words"}, "name is one word"),
        ({"times": "21"}, "a whole number of 20 or less"),
        ({"models": "a, b, c", "times": "7"}, "This would make 21 calls"),
    ],
)
def test_what_cannot_start_is_refused(
    runner: Client,
    called: Checkpoint,  # noqa: F811
    fields: dict[str, str],
    message: str,
) -> None:
    answer = runner.post(address_of(called), sent(called, **fields))
    assert answer.status_code == 422 and message in answer.content.decode() and not Job.objects.exists()


def test_a_call_with_a_redacted_secret_is_not_replayed_and_the_plan_says_so(
    runner: Client,
    called: Checkpoint,  # noqa: F811
    terminal: Terminal,
) -> None:
    with_messages(called, [{"role": "user", "content": f"Use {MARKER}."}])
    html = runner.get(address_of(called)).content.decode()
    assert "Message 1: [redacted]" in html and "records no call that can be replayed" in html
    assert runner.post(address_of(called), sent(called)).status_code == 422
    refused = terminal.refused("replay", called.target, "--all", "--models", "m", "--plan")
    assert {one["status"] for one in refused["replays"]} == {"refused"} and not Job.objects.exists()


def test_calls_beyond_the_limits_are_named_and_not_decoded_twice(
    runner: Client,
    called: Checkpoint,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = len(recorded_calls_of(called))
    monkeypatch.setattr(replay, "MAX_CALLS", 1)
    html = runner.get(address_of(called)).content.decode()
    assert f"Older calls beyond the limit, which are not replayed: {count - 1}." in html
    monkeypatch.setattr(replay, "MAX_BYTES", 10)
    assert "can be replayed at once" in runner.get(address_of(called)).content.decode()


def test_a_read_only_user_starts_nothing(reader: Client, called: Checkpoint) -> None:  # noqa: F811
    assert reader.get(address_of(called)).status_code == 403
    assert reader.post(address_of(called), sent(called)).status_code == 403
    for page in (reverse("checkpoint-calls", args=[called.pk]), called.get_absolute_url()):
        assert address_of(called) not in reader.get(page, follow=True).content.decode()
    assert not Job.objects.exists()


def test_a_total_limit_holds_the_calls_that_have_not_started(
    runner: Client,
    called: Checkpoint,  # noqa: F811
) -> None:
    runner.post(address_of(called), sent(called, limit_tokens="20"))
    first = next_job()
    assert first and first.claim()
    assert next_job()
    Job.objects.filter(pk=first.pk).update(tokens=20)
    assert next_job() is None
    html = runner.get(Sweep.objects.get().get_absolute_url()).content.decode()
    assert "Total limits:" in html


def test_one_page_shows_all_answers_with_differences_cost_and_time(
    runner: Client,
    called: Checkpoint,  # noqa: F811
) -> None:
    reader = reading_client()
    runner.post(address_of(called), sent(called))
    group = Sweep.objects.get()
    first, second, *_rest = jobs = list(group.branches)
    recorded = call_of(called).answer
    assert recorded
    failed = {"text": "", "error": "RateLimitError: <b>slow</b>"}
    texts = {first.pk: {"text": recorded.text}, second.pk: failed}
    for job in (first, second):
        used = {"model": "gpt-4o-mini", "tokens": 20, "tokens_in": 10, "tokens_out": 10}
        answer: dict[str, Any] = {"model": "openai/gpt-4o", "attempt": 1, "seconds": 1.5, **texts[job.pk]}
        for seq, (kind, data) in enumerate([("model_completed", used), ("call_replayed", answer)], 1):
            JobEvent.objects.create(job=job, seq=seq, kind=kind, data=data, at=job.created_at)
        job.end(Job.Status.SUCCEEDED)
    html = reader.get(group.get_absolute_url()).content.decode()
    row = re.sub(r"<[^>]+>|\s+", " ", html.partition("<tbody>")[2].partition("</tbody>")[0]).split()
    assert row.count("openai/gpt-4o") == 1 and row[row.index("openai/gpt-4o") + 1 :][:3] == ["1", "1", "1"]
    assert "$0.000015" in html and "RateLimitError: &lt;b&gt;slow" in html
    assert "Same as the recorded answer" in html and html.count("replay-answers") == len(jobs)
    assert "/fork/" not in html and "Replayed calls" in html and "Compare all" not in html
    assert "<dt>Replayed calls</dt>" in reader.get(jobs[0].get_absolute_url()).content.decode()
    # The same answer is not offered, another one is.
    assert "/fork/" not in runner.get(group.get_absolute_url()).content.decode()
    another = {"model": "openai/gpt-4o", "attempt": 2, "text": "Final Answer: another"}
    JobEvent.objects.create(job=first, seq=3, kind="call_replayed", data=another, at=first.created_at)
    html = runner.get(group.get_absolute_url()).content.decode()
    links = re.findall(r'href="([^"]*/fork/[^"]*)"', html)
    assert [unescape(one).partition("answer=")[2] for one in links] == [f"{first.pk}%3A3"]
    # Without the checkpoint, the answers are still shown.
    Sweep.objects.update(checkpoint=None)
    Job.objects.update(checkpoint=None)
    assert "The recorded answer can no longer be read" in unescape(
        reader.get(group.get_absolute_url()).content.decode()
    )


def test_a_secret_typed_as_a_models_name_is_shown_nowhere(
    runner: Client,
    called: Checkpoint,  # noqa: F811
) -> None:
    reader = reading_client()
    secret = "sk-canary0123456789abcdefghij"
    runner.post(address_of(called), sent(called, models=secret))
    group = Sweep.objects.get()
    job = group.branches[0]
    pages = (group.get_absolute_url(), job.get_absolute_url(), reverse("jobs"), called.get_absolute_url())
    for address in pages:
        assert secret not in reader.get(address, follow=True).content.decode()
    assert job.request["call"]["models"] == [secret]
    job.end(Job.Status.FAILED)
    assert secret not in json.dumps(Job.objects.get(pk=job.pk).request) and secret not in group.name


def test_the_terminal_plans_and_starts_the_same(
    called: Checkpoint,  # noqa: F811
    terminal: Terminal,
) -> None:
    count = len(recorded_calls_of(called))
    command = ("replay", called.target, "--all", "--models", "a,b")
    planned = terminal.document(*command, "--plan")
    assert planned["calls"] == 2 * count
    assert [one["status"] for one in planned["replays"]] == ["planned"] * count
    assert not Job.objects.exists()
    started = terminal.document(*command, "--limit", "tokens=50")
    assert started["limits"] == {"tokens": 50} and Sweep.objects.get().branches.count() == count
    assert started["group"] == str(Sweep.objects.get().pk)


@pytest.mark.parametrize(
    "arguments", [(), ("0123456789ab", "--all"), ("--all", "--parameters", "{}"), ("--all", "--tools", "[]")]
)
def test_the_terminal_wants_one_call_or_all_as_they_are(
    called: Checkpoint,  # noqa: F811
    terminal: Terminal,
    arguments: tuple[str, ...],
) -> None:
    assert "--all" in terminal.refused("replay", called.target, *arguments, "--models", "m")["error"]
    Project.objects.update(confirmed_at=None)
    assert not Job.objects.exists()
