"""The pages of jobs, without scripts."""

import uuid
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from viewer.messages.message import plain_text
from viewer.models import Checkpoint, Job, JobEvent, Location, RecordedCode, Run


@pytest.fixture
def job(db: None, tmp_path: Path) -> Job:
    """Create a running job in the second of its two tasks."""
    location = Location.objects.create(path=str(tmp_path), store_kind="json")
    run = Run.objects.create(location=location, key="kickoff", entity="crew", name="article crew")
    checkpoint = Checkpoint.objects.create(
        location=location,
        run=run,
        source_key="k",
        fingerprint="1",
        checkpoint_id="20261121T001329_80",
        branch="main",
    )
    plan = [
        {"unit": "a", "title": "Research", "agent": "Researcher", "action": "kept", "reason": "finished"},
        {"unit": "b", "title": "Draft", "agent": "Writer", "action": "runs", "reason": "unfinished"},
    ]
    job = Job.objects.create(
        kind="fork",
        location=location,
        run=run,
        checkpoint=checkpoint,
        branch="what-if",
        plan=plan,
        status="running",
        started_at=timezone.now(),
    )
    events = [
        ("task_started", {"task": "b", "position": 2, "agent": "Writer"}),
        ("text", {"text": "Once <script>", "agent": "Writer"}),
        ("checkpoint", {"id": "20261121T001400_ab", "path": "/x"}),
    ]
    JobEvent.objects.bulk_create(
        JobEvent(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)
        for seq, (kind, data) in enumerate(events, 1)
    )
    return job


def page(client: Client, job: Job) -> str:
    response = client.get(job.get_absolute_url())
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(
    ("commit", "is_dirty", "expected"),
    [
        ("c0ffee" * 6 + "cafe", False, "unchanged"),
        ("c0ffee" * 6 + "cafe", True, "with uncommitted changes"),
        ("c0ffee" * 6 + "cafe", None, "uncommitted changes not known"),
        ("", None, "not in a commit"),
    ],
)
def test_a_job_shows_the_code_that_it_ran(
    reader: Client, job: Job, commit: str, is_dirty: bool | None, expected: str
) -> None:
    assert "<dt>Code</dt>" not in page(reader, job)
    job.record_code(RecordedCode.stored({}, commit, is_dirty=is_dirty, is_complete=True))
    shown = page(reader, job)
    assert expected in shown and ('title="c0ffee' in shown) == bool(commit)


@pytest.mark.parametrize("name", ["jobs", "job", "job-cancel"])
def test_visitors_see_and_cancel_no_jobs(job: Job, name: str) -> None:
    url = reverse(name, args=[] if name == "jobs" else [job.pk])
    for response in (Client().get(url), Client().post(url)):
        assert response.status_code == 302
        assert response["Location"].startswith("/login/")
    job.refresh_from_db()
    assert job.cancel_requested_at is None


def test_an_empty_list_of_jobs_shows_the_first_step(runner: Client) -> None:
    assert "No jobs yet" in runner.get("/jobs/").content.decode()


def test_the_list_describes_each_job(runner: Client, job: Job) -> None:
    text = runner.get("/jobs/").content.decode()
    assert "Forking to <strong>what-if</strong>" in text
    assert "article crew" in text
    assert job.get_absolute_url() in text


@pytest.mark.parametrize(
    ("status", "state"), [("cancelled", "stopped"), ("interrupted", "stopped"), ("failed", "failed")]
)
def test_no_step_of_an_ended_job_is_running(runner: Client, job: Job, status: str, state: str) -> None:
    assert 'class="job-step is-running"' in page(runner, job)
    # A killed runner reports no end.
    Job.objects.update(status=status)
    text = page(runner, job)
    assert f'class="job-step is-{state}"' in text and f">{state}</span>" in text
    assert "job-step is-running" not in text and ">running</span>" not in text


def test_a_running_job_shows_its_plan_its_events_and_a_cancel_button(runner: Client, job: Job) -> None:
    text = page(runner, job)
    assert "</a>: Draft" in text
    assert "1 of 2" in text
    assert 'data-seq="3"' in text
    assert "Once &lt;script&gt;" in text
    assert f"/runs/{job.run.uid}/?at=20261121T001400_ab" in text  # type: ignore[union-attr]
    assert reverse("job-cancel", args=[job.pk]) in text


def test_a_failed_job_shows_its_error_traceback_and_log_as_text(runner: Client, job: Job) -> None:
    job.end(Job.Status.FAILED, error=plain_text("<i>no</i>"), traceback="Traceback: &", log_end="the <end>")
    text = page(runner, job)
    for shown in ("&lt;i&gt;no&lt;/i&gt;", "Traceback: &amp;", "the &lt;end&gt;", "failed"):
        assert shown in text
    assert reverse("job-cancel", args=[job.pk]) not in text
    assert "ws-connect" not in text


def test_pages_have_no_inline_scripts_or_styles(runner: Client, job: Job) -> None:
    for text in (page(runner, job), runner.get("/jobs/").content.decode()):
        assert "style=" not in text
        assert "onclick" not in text
        assert "<script>" not in text


def test_cancelling_redirects_to_the_job(runner: Client, job: Job) -> None:
    response = runner.post(reverse("job-cancel", args=[job.pk]))
    assert response["Location"] == job.get_absolute_url()
    job.refresh_from_db()
    assert job.is_being_cancelled
    assert "Cancelling" in page(runner, job)


def test_cancelling_with_htmx_returns_no_content(runner: Client, job: Job) -> None:
    response = runner.post(reverse("job-cancel", args=[job.pk]), headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (204, b"")


def test_a_get_request_does_not_cancel(runner: Client, job: Job) -> None:
    assert runner.get(reverse("job-cancel", args=[job.pk])).status_code == 405


def test_an_unknown_job_is_not_found(runner: Client) -> None:
    assert runner.get(reverse("job", args=[uuid.uuid4()])).status_code == 404


def test_a_job_is_shown_after_its_run_and_checkpoint_were_deleted(runner: Client, job: Job) -> None:
    Run.objects.all().delete()
    assert "a removed checkpoint" in page(runner, job)


def test_the_bar_of_a_job_has_the_colour_of_its_branch(runner: Client, job: Job) -> None:
    assert job.run is not None
    assert "job-bar lane-1" in page(runner, job), "The next one, before anything is on the branch."
    job.run.checkpoints.create(
        location=job.location, source_key="k2", fingerprint="2", checkpoint_id="c2", branch="what-if", row=1
    )
    job.run.checkpoints.create(
        location=job.location, source_key="k3", fingerprint="3", checkpoint_id="c3", branch="later", row=2
    )
    job.branch = "later"
    job.save()
    assert "job-bar lane-2" in page(runner, job)
    assert "job-bar lane-2" in runner.get(job.location.get_absolute_url()).content.decode()
