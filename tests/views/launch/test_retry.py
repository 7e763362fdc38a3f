"""A retry fills the form with the values typed for the job, without possible secrets."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.views.forking import checked, filled, page
from viewer.host.jobs.starting import request_of
from viewer.messages.message import plain_text
from viewer.models import Checkpoint, Job, Project
from viewer.records.lineage.tree import free_name

KEY = "sk-typed0123456789abcdefghijkl"
ENVIRONMENT_VALUE = "hunter-of-the-lost-2031"


def failed(client: Client, checkpoint: Checkpoint, **changes: str) -> Job:
    """Create a failed fork with these changes of its form."""
    checked(checkpoint)
    client.post(page(checkpoint), filled(client, checkpoint, **changes))
    job = Job.objects.latest("created_at")
    job.end(Job.Status.FAILED, plain_text("the tool broke"))
    return job


def retry_link(client: Client, job: Job) -> str:
    found = re.search(r'href="([^"]*\?retry=[^"]*)"', client.get(job.get_absolute_url()).content.decode())
    assert found
    return found[1]


def field(text: str, name: str) -> str:
    found = re.search(rf'<textarea[^>]* name="{re.escape(name)}"[^>]*>\n([^<]*)</textarea>', text)
    found = found or re.search(rf'<input[^>]* name="{re.escape(name)}" value="([^"]*)"', text)
    assert found, name
    return found[1]


def test_the_form_has_the_typed_values(runner: Client, checkpoint: Checkpoint) -> None:
    text = runner.get(page(checkpoint)).content.decode()
    output = re.findall(r'name="(output:[^"]+)"', text)[0]
    changes = {
        "input__topic": "tea",
        "input__year": "2031",
        "branch": "with-tea",
        "limit_tokens": "5000",
        "limit_minutes": "1.5",
        "max_checkpoints": "7",
        output.replace(":", "__"): "A new research.",
    }
    job = failed(runner, checkpoint, **changes)
    again = runner.get(retry_link(runner, job)).content.decode()
    shown = {name.replace("__", ":"): text for name, text in changes.items()}
    assert {name: field(again, name) for name in shown} == shown
    assert job.branch == "with-tea"
    assert "Not kept" not in again


def test_the_form_has_what_was_chosen_for_tools(runner: Client, checkpoint: Checkpoint) -> None:
    job = failed(runner, checkpoint, tool__search="refuse", dry_run="1", model_calls="recorded")
    text = runner.get(retry_link(runner, job)).content.decode()
    assert re.search(r'name="tool:search">.*?<option value="refuse" selected>', text, re.S)
    assert re.search(r'name="dry_run" value="1"\s+checked', text)
    assert '<option value="recorded" selected>' in text
    # No model is called.
    assert "Model calls (previous run)" not in text


def test_a_typed_value_of_another_type_keeps_its_type(runner: Client, checkpoint: Checkpoint) -> None:
    job = failed(runner, checkpoint, **{"input-json__topic": '["tea", 1]', "input-more": '{"tone": "dry"}'})
    text = runner.get(retry_link(runner, job)).content.decode()
    assert "&quot;tea&quot;" in field(text, "input-json:topic")
    assert "dry" in field(text, "input-more")


def test_possible_secrets_are_not_stored_and_are_named(runner: Client, checkpoint: Checkpoint) -> None:
    project = Project.objects.get()
    environment = f"{project.folder}/.env"
    with open(environment, "w") as file:
        file.write(f"SERVICE_TOKEN={ENVIRONMENT_VALUE}\n")
    Project.objects.update(environment_file=environment)
    typed = {"input__api_key": "plain words", "input__topic": f"use {KEY}", "input__year": "2031"}
    typed["input-more"] = f'{{"note": "{ENVIRONMENT_VALUE}"}}'
    job = failed(runner, checkpoint, **typed)
    job.refresh_from_db()
    held = str(job.request)
    assert not any(secret in held for secret in (KEY, ENVIRONMENT_VALUE, "plain words"))
    text = runner.get(retry_link(runner, job)).content.decode()
    assert "Not saved because they may be secrets" in text
    named = re.search(r'<span class="mono">([^<]*)</span>\. Enter them again', text)
    assert named and set(named[1].split(", ")) == {"api_key", "topic", "note"}
    assert field(text, "input:year") == "2031"


def test_stored_form_values_are_not_in_the_runners_request(runner: Client, checkpoint: Checkpoint) -> None:
    checked(checkpoint)
    runner.post(page(checkpoint), filled(runner, checkpoint, input__topic="tea"))
    job = Job.objects.get()
    assert job.request["kept"]["inputs"] == {"topic": "tea"}
    assert "kept" not in request_of(job)
    assert request_of(job)["inputs"] == {"topic": "tea"}


@pytest.mark.parametrize(
    ("name", "taken", "free"),
    [
        ("tea", set(), "tea"),
        ("tea", {"tea"}, "tea-2"),
        ("tea", {"tea", "tea-2"}, "tea-3"),
        ("tea-2", {"tea", "tea-2"}, "tea-3"),
        ("year-2030", {"year-2030"}, "year-2030-2"),
    ],
)
def test_a_retry_has_the_next_free_name(name: str, taken: set[str], free: str) -> None:
    assert free_name(name, taken) == free


def test_only_an_ended_job_of_the_same_checkpoint_is_retried(runner: Client, checkpoint: Checkpoint) -> None:
    checked(checkpoint)
    runner.post(page(checkpoint), filled(runner, checkpoint, input__topic="tea"))
    job = Job.objects.get()
    for address in (f"{page(checkpoint)}?retry={job.pk}", f"{page(checkpoint)}?retry=none"):
        assert field(runner.get(address).content.decode(), "input:topic") == "AI"
    job.end(Job.Status.FAILED, plain_text("it broke"))
    assert field(runner.get(f"{page(checkpoint)}?retry={job.pk}").content.decode(), "input:topic") == "tea"


def test_a_new_run_is_retried_with_its_inputs(runner: Client, checkpoint: Checkpoint) -> None:
    job = Job.objects.create(
        kind=Job.Kind.RUN,
        location=checkpoint.location,
        project=checkpoint.location.project,
        status=Job.Status.FAILED,
        branch="main",
        request={
            "entry_point": "crew:build",
            "inputs": {"topic": None, "api_key": None},
            "kept": {"inputs": {"topic": "tea"}},
            "options": {"models": {"*": "openai/gpt-5"}, "checkpoints": {"max_checkpoints": 4}},
        },
        limits={"steps": 3},
    )
    link = retry_link(runner, job)
    assert link.startswith(reverse("new-run", args=[checkpoint.location.uid]))
    text = runner.get(link).content.decode()
    assert "tea" in text and field(text, "limit_steps") == "3"
    assert field(text, "model:*") == "openai/gpt-5" and field(text, "max_checkpoints") == "4"
    assert "api_key" in text and "Enter them again" in text
