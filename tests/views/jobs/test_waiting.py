"""Start times and limits of a job: choosing, showing and changing them."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.views.forking import filled, page
from viewer.models import Checkpoint, DayLimits, Job, JobEvent, Location, Project
from viewer.presentation.jobs.status import waiting
from viewer.records import limits
from viewer.records.hosts import next_job
from viewer.records.limits import usage_of

TOMORROW = timezone.now().replace(second=0, microsecond=0) + timedelta(days=1)


def local(moment: Any) -> str:
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M")


@pytest.fixture
def later(runner: Client, checkpoint: Checkpoint) -> Job:
    """Request a fork that starts tomorrow."""
    sent = filled(runner, checkpoint, branch="later", start="later", start_at=local(TOMORROW))
    assert runner.post(page(checkpoint), sent | {"limit_minutes": "1.5"}).status_code == 302
    return Job.objects.get()


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_scheduled_fork_has_its_limits_and_does_not_start_early(later: Job) -> None:
    assert later.start_at == TOMORROW
    assert later.limits == {"seconds": 90}
    assert (later.status, next_job()) == ("queued", None)


def test_a_resume_can_be_scheduled(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint, "resume", start_at=local(TOMORROW), limit_tokens="20,000")
    runner.post(page(checkpoint, "resume"), sent)
    job = Job.objects.get()
    assert job.start_at, "a time that was typed holds, though nobody chose it in the list"
    assert job.limits == {"tokens": 20000}


def test_a_past_start_time_or_an_invalid_limit_starts_nothing(runner: Client, checkpoint: Checkpoint) -> None:
    sent = filled(runner, checkpoint, start="later", start_at="2020-01-01T10:00", limit_steps="-3")
    answer = runner.post(page(checkpoint), sent)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert "This time has passed." in text
    assert "This must be a number above 0" in text
    assert not Job.objects.exists()


def test_the_list_and_the_page_show_the_start_time_of_a_waiting_job(client: Client, later: Job) -> None:
    assert later.start_at
    shown = timezone.localtime(later.start_at).strftime("%H:%M")
    for address in (reverse("jobs"), reverse("jobs-waiting"), later.get_absolute_url()):
        text = text_of(client, address)
        assert "until" in text
        assert shown in text
        assert "No worker is running" in text
        assert "Start now" in text
    assert "until" in text_of(client, reverse("job-wait", args=[later.pk]))


def test_a_waiting_job_can_be_started_now_or_rescheduled(client: Client, later: Job) -> None:
    moved = TOMORROW + timedelta(days=2)
    client.post(reverse("job-start", args=[later.pk]), {"start": "later", "start_at": local(moved)})
    later.refresh_from_db()
    assert later.start_at
    assert local(later.start_at) == local(moved)
    assert next_job() is None
    answer = client.post(reverse("job-start", args=[later.pk]), {"start": "later", "start_at": "yesterday"})
    text = answer.content.decode()
    assert answer.status_code == 422 and 'value="yesterday"' in text
    assert 'id="start-at-error">This is not a valid time.' in text
    later.refresh_from_db()
    assert local(later.start_at) == local(moved)
    client.post(reverse("job-start", args=[later.pk]), {"start": "now"})
    later.refresh_from_db()
    assert later.start_at is None
    assert next_job() == later


def test_a_missed_start_time_waits_for_a_person(client: Client, later: Job) -> None:
    Job.objects.update(start_at=timezone.now() - timedelta(days=1))
    text = text_of(client, reverse("jobs"))
    assert "no worker was running" in text
    assert "Start now" in text


def test_daily_limits_are_enforced_and_their_usage_is_shown(runner: Client) -> None:
    assert (
        runner.post(reverse("day-limits"), {"limit_tokens": "50000", "limit_minutes": "30"}).status_code
        == 302
    )
    assert DayLimits.current() == {"tokens": 50000, "seconds": 1800}
    text = text_of(runner, reverse("jobs"))
    assert "0 of 50,000 tokens" in text
    assert "0 seconds of 30 minutes" in text
    wrong = runner.post(reverse("day-limits"), {"limit_steps": "many"})
    assert wrong.status_code == 422
    assert 'value="many"' in wrong.content.decode()
    assert DayLimits.current() == {"tokens": 50000, "seconds": 1800}
    runner.post(reverse("day-limits"), {})
    assert DayLimits.current() == {}


def test_limits_that_somebody_else_has_changed_are_not_overwritten(runner: Client) -> None:
    seen = re.findall(r'name="seen" value="([^"]+)"', text_of(runner, reverse("jobs")))[0]
    DayLimits.change({"steps": 7})
    refused = runner.post(reverse("day-limits"), {"limit_tokens": "50000", "seen": seen})
    page = refused.content.decode()
    assert refused.status_code == 422 and "Somebody changed these limits to: Steps: 7." in page
    assert DayLimits.current() == {"steps": 7} and 'value="50000"' in page
    again = re.findall(r'name="seen" value="([^"]+)"', page)[0]
    assert runner.post(reverse("day-limits"), {"limit_tokens": "50000", "seen": again}).status_code == 302
    assert DayLimits.current() == {"tokens": 50000}


def test_a_job_waiting_for_a_daily_limit_links_to_the_open_limits(runner: Client, later: Job) -> None:
    DayLimits.change({"steps": 1})
    Job.objects.update(start_at=None)
    used = Job.objects.create(
        kind="fork", location=later.location, project=later.project, steps_used=1, started_at=timezone.now()
    )
    Job.objects.filter(pk=used.pk).update(status="succeeded", ended_at=timezone.now())
    folded = text_of(runner, reverse("jobs"))
    assert "for a limit: the daily limit of 1 step" in folded and ' open id="day-limits"' not in folded
    link = re.search(r'href="([^"]+)#day-limits"', folded)
    assert link
    assert ' open id="day-limits"' in text_of(runner, link[1])


def test_changing_the_limits_of_a_project_leaves_it_confirmed(runner: Client, checkpoint: Checkpoint) -> None:
    address = reverse("project-limits", args=[checkpoint.location.uid])
    assert runner.post(address, {"limit_steps": "0"}).status_code == 422
    assert runner.post(address, {"limit_steps": "12"}).status_code == 302
    project = Project.objects.get()
    assert (project.limits, project.is_confirmed) == ({"steps": 12}, True)
    assert 'value="12"' in text_of(runner, reverse("project", args=[checkpoint.location.uid]))


def test_a_stopped_job_names_its_limit_and_links_to_its_last_checkpoint(
    client: Client, later: Job, checkpoint: Checkpoint
) -> None:
    words = "Stopped at its limit of 20,000 tokens."
    Job.objects.update(
        status="cancelled",
        limit_hit={"whose": "job", "measure": "tokens", "max_amount": 20000},
        limits={"tokens": 20000},
        tokens=20400,
        started_at=timezone.now(),
    )
    text = text_of(client, later.get_absolute_url())
    assert words in text
    assert "stopped at a limit" in text
    assert "20,400 of 20,000 tokens" in text
    assert ">Retry<" in text
    JobEvent.objects.create(
        job=later, seq=1, kind="checkpoint", at=timezone.now(), data={"id": checkpoint.checkpoint_id}
    )
    text = text_of(client, later.get_absolute_url())
    assert f'href="{reverse("resume", args=[checkpoint.pk])}"' in text
    assert "Resume from its last checkpoint" in text


@pytest.mark.parametrize("name", ["jobs-waiting", "day-limits"])
def test_visitors_see_and_change_no_start_times_and_limits(client: Client, db: None, name: str) -> None:
    assert client.post(reverse(name)).status_code == 302
    assert client.get(reverse(name)).status_code == 302
    assert not DayLimits.objects.exists()


def test_what_was_used_is_added_up_once_for_all_that_wait(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    DayLimits.objects.create(limits={"tokens": 100})
    project, other = Project.objects.get(), Project.objects.create(folder="/srv/other", limits={"steps": 1})
    queued = {
        which: [Job.objects.create(kind="fork", location=location, project=which) for _ in range(3)]
        for which in (project, other)
    }
    ended = Job.objects.create(
        kind="fork", location=location, project=other, status="succeeded", started_at=timezone.now()
    )
    Job.objects.filter(pk=ended.pk).update(ended_at=timezone.now(), steps_used=1, tokens=5)
    summed = list[object]()

    def counted(*arguments: Any) -> dict[str, float]:
        summed.append(arguments)
        return usage_of(*arguments)

    monkeypatch.setattr(limits, "usage_of", counted)
    kinds = {wait.job: wait.kind for wait in waiting()}
    assert {kinds[job] for job in queued[other]} == {"limit"}
    assert "limit" not in {kinds[job] for job in queued[project]} and len(kinds) == 6
    assert len(summed) == 2, "The day's for one project, and those of the other."
