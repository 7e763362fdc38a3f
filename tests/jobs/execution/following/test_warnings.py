"""Warnings of a run are shown with its outcome, at the terminal and on the job's page."""

from django.contrib.auth.models import User
from django.test import Client

from tests.jobs.conftest import MakeJob
from viewer.cli.starting import outcome_of
from viewer.presentation.jobs.status import warnings_of

# As tests/jobs/fake_runners/tiny.py has it.
CANARY = "sk-canary0123456789abcdefghij"


def test_the_terminal_prints_each_warning_once_with_the_error(make_job: MakeJob) -> None:
    answer = outcome_of(make_job("errors/warns.py"), [], waits=True)

    assert answer.status == 1
    assert [*answer.lines].count("Warning: The tool Archive is missing.") == 1
    assert "ToolError" in "\n".join(answer.lines)
    assert answer.document["warnings"][0] == "The tool Archive is missing."


def test_the_page_of_a_failed_job_shows_the_warnings(make_job: MakeJob, admin_user: User) -> None:
    job = make_job("errors/warns.py")
    outcome_of(job, [], waits=True)
    client = Client()
    client.force_login(admin_user)
    page = client.get(job.get_absolute_url()).content.decode()
    outcome = page.partition('class="job-outcome')[2].partition("</section>")[0]

    assert outcome.count("The tool Archive is missing.") == 1


def test_a_warning_contains_no_secret(make_job: MakeJob) -> None:
    job = make_job("errors/warns.py")
    outcome_of(job, [], waits=True)

    assert len(warnings_of(job)) == 2
    assert not any(CANARY in warning for warning in warnings_of(job))


def test_a_run_without_warnings_prints_none(make_job: MakeJob) -> None:
    answer = outcome_of(make_job("succeeds.py"), [], waits=True)

    assert answer.document["warnings"] == []
    assert not any("Warning" in line for line in answer.lines)
