"""The form of variations and the page of a sweep."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.views.forking import CREW, checked
from viewer.models import Checkpoint, Job, JobEvent, Project, Sweep
from viewer.records.hosts import waits_for_cache_warmup

AGENTS = [
    {"id": "a", "role": "Agent 1", "llm": {"model": "gpt-4o"}},
    {"id": "b", "role": "Agent 2", "llm": {"model": "gpt-4o-mini"}},
]
pytestmark = pytest.mark.usefixtures("check")


@pytest.fixture
def entity() -> dict[str, Any]:
    return {**CREW, "agents": AGENTS}


def vary(checkpoint: Checkpoint, part: str = "new-sweep") -> str:
    return reverse(part, args=[checkpoint.pk])


def sent(client: Client, checkpoint: Checkpoint, **changes: Any) -> dict[str, Any]:
    """Return what a browser would send for the empty form, with these changes; ``a__b`` means ``a:b``."""
    text = client.get(vary(checkpoint)).content.decode()
    key = re.search(r'name="key" value="([^"]+)"', text)
    assert key
    filled = {"key": key[1], "branch": "tone", "entry_point": "crew:build"}
    named = {name.replace("__", ":").replace("_", "-", 1): value for name, value in changes.items()}
    return filled | named


def test_a_secret_of_the_project_that_is_typed_as_a_value_is_in_no_name(
    client: Client, person: User, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    # Only the project's environment file identifies this secret. Once shortened, it would not be found.
    secret = "correct-horse-battery-staple-" * 4
    variables = tmp_path / "project.env"
    variables.write_text(f"DESK_PASSWORD={secret}\n")
    Project.objects.update(environment_file=str(variables))
    checked(Checkpoint.objects.get())
    form = sent(client, checkpoint, vary_input__topic=f"AI\n{secret}")
    assert client.post(vary(checkpoint), form).status_code == 302
    jobs = Sweep.objects.get().branches
    assert [job.branch for job in jobs] == ["tone/ai", "tone/2"]
    assert not [job for job in jobs if "horse" in job.branch + job.variation]


def test_a_sweep_whose_checkpoint_was_deleted_is_still_shown_as_one(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    sweep = Sweep.objects.create(name="tone", checkpoint=checkpoint)
    checkpoint.delete()
    page = client.get(sweep.get_absolute_url()).content.decode()
    assert "Several runs" not in page and "Sweep tone" in page


def test_each_combination_is_a_branch_of_one_sweep(
    client: Client, person: User, checkpoint: Checkpoint
) -> None:
    form = sent(client, checkpoint, vary_input__topic="AI\ngreen tea\n", vary_model__Agent_1="o3")
    form = {name.replace("Agent_1", "Agent 1"): value for name, value in form.items()}
    form |= {"vary-input:year": "[2030, 2031]", "limit_tokens": "5000", "limit_minutes": "2"}
    assert client.post(vary(checkpoint), form).status_code == 302
    group = Sweep.objects.get()
    assert (group.name, group.limits, group.checkpoint) == (
        "tone",
        {"tokens": 5000, "seconds": 120},
        checkpoint,
    )
    jobs = list(group.jobs.order_by("created_at"))
    assert [job.branch for job in jobs] == [
        "tone/ai.2030",
        "tone/ai.2031",
        "tone/green-tea.2030",
        "tone/green-tea.2031",
    ]
    # The stored value is no change, and each value has its type.
    assert [job.request["inputs"] for job in jobs] == [
        {"year": 2030},
        {"year": 2031},
        {"topic": "green tea", "year": 2030},
        {"topic": "green tea", "year": 2031},
    ]
    assert all(job.request["options"] == {"models": {"Agent 1": "o3"}, "accepted": []} for job in jobs)
    assert jobs[3].variation == "topic: green tea, year: 2031, Agent 1: o3"
    assert {job.status for job in jobs} == {Job.Status.QUEUED} and jobs[0].requested_by == person


def test_a_repeated_form_starts_once_and_a_changed_one_is_another_sweep(
    runner: Client, checkpoint: Checkpoint
) -> None:
    form = sent(runner, checkpoint, vary_input__topic="tea\nmilk")
    first = runner.post(vary(checkpoint), form)
    again = runner.post(vary(checkpoint), form)
    assert first["Location"] == again["Location"] == Sweep.objects.get().get_absolute_url()
    assert Job.objects.count() == 2
    changed = runner.post(vary(checkpoint), form | {"vary-input:topic": "tea\ncocoa", "branch": "other"})
    assert changed["Location"] != first["Location"] and Job.objects.count() == 4


def test_values_of_any_language_name_branches(runner: Client, checkpoint: Checkpoint) -> None:
    values = ["人" * 30, "人" * 29 + "工"]
    form = sent(runner, checkpoint, vary_input__topic="\n".join(values))
    form |= {"vary-input:year": json.dumps(values), "vary-model:Agent 1": f"{'x' * 30}\n{'y' * 30}"}
    assert runner.post(vary(checkpoint), form).status_code == 302
    branches = {job.branch for job in Job.objects.all()}
    assert len(branches) == 8 and all(branch.startswith("tone/人") for branch in branches)


def test_no_two_variations_have_the_same_branch(runner: Client, checkpoint: Checkpoint) -> None:
    form = sent(runner, checkpoint, vary_input__topic="tea\ntea 3\nTea")
    assert runner.post(vary(checkpoint), form).status_code == 302
    branches = Job.objects.order_by("created_at").values_list("branch", flat=True)
    assert list(branches) == ["tone/tea", "tone/tea-3", "tone/tea-2"]


def test_a_varied_key_is_in_no_name_and_no_message(runner: Client, checkpoint: Checkpoint) -> None:
    keys = ["hunter2-and-more", "sk-canary0123456789abcdefghij"]
    form = sent(runner, checkpoint, vary_input__topic=f"tea\n{keys[1]}")
    form["vary-input:api_key"] = "\n".join(keys)
    assert runner.post(vary(checkpoint), form).status_code == 302
    jobs = list(Job.objects.order_by("created_at"))
    # Only the runs receive them, each its own.
    assert [job.request["inputs"]["api_key"] for job in jobs] == keys * 2
    assert [job.branch for job in jobs] == ["tone/tea", "tone/tea-2", "tone/3", "tone/4"]
    kept = [f"{job.branch} {job.variation} {job.plan} {job.request_digest}" for job in jobs]
    page = runner.get(Sweep.objects.get().get_absolute_url()).content.decode()
    assert not [key for key in keys if any(key in text for text in (*kept, page))]
    assert "topic: [redacted], api_key: [redacted]" in jobs[3].variation
    for job in jobs:
        job.end(Job.Status.CANCELLED)
    assert not [key for key in keys for job in Job.objects.values() if key in str(job)]


def test_nothing_is_recorded_if_one_variation_is_invalid(runner: Client, checkpoint: Checkpoint) -> None:
    form = sent(runner, checkpoint, vary_input__topic="tea\nmilk")
    Job.objects.create(kind=Job.Kind.FORK, location=checkpoint.location, branch="tone/milk")
    answer = runner.post(vary(checkpoint), form)
    assert answer.status_code == 422 and "already exists" in answer.content.decode()
    assert not Sweep.objects.exists() and Job.objects.count() == 1


def test_the_plan_of_each_variation_is_shown_and_stale_tasks_can_run_again(
    runner: Client, checkpoint: Checkpoint
) -> None:
    form = sent(runner, checkpoint, vary_input__topic="AI\ntea")
    text = runner.post(
        vary(checkpoint, "new-sweep-plan"), form, headers={"HX-Request": "true"}
    ).content.decode()
    assert re.findall(r'<li class="is-(\w+)"', text) == ["kept", "kept", "runs"] * 2
    assert text.count('class="step-stale"') == 2 and "Start 2 forks" in text
    again = form | {"again-stale": "1"}
    text = runner.post(vary(checkpoint, "new-sweep-plan"), again).content.decode()
    assert re.findall(r'<li class="is-(\w+)"', text) == ["kept", "kept", "runs", "again", "again", "runs"]
    assert not Job.objects.exists()


def test_an_output_can_be_varied_and_left_unchanged_in_one_branch(
    runner: Client, checkpoint: Checkpoint
) -> None:
    form = sent(runner, checkpoint)
    form |= {"vary-output:task-1": ["One\n\n---\n\ntext", "Another", ""], "vary-stored:task-1": "1"}
    runner.post(vary(checkpoint), form)
    jobs = list(Sweep.objects.get().jobs.order_by("created_at"))
    assert [job.request["outputs"] for job in jobs] == [
        {},
        {"task-1": {"text": "One\n\n---\n\ntext"}},
        {"task-1": {"text": "Another"}},
    ]
    assert [job.branch for job in jobs] == ["tone/unchanged", "tone/one-text", "tone/another"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Choose what to vary first"),
        ({"vary-input:topic": "\n".join(map(str, range(21)))}, "21 branches. The limit is 20"),
        ({"vary-input:year": "2030\nsoon"}, "whole number"),
        ({"vary-input:topic": "tea", "branch": "../up"}, "name may not"),
        ({"vary-input:topic": "tea", "limit_steps": "-1"}, "above 0"),
        ({"vary-input:topic": "tea", "entry_point": "else:where"}, "no such entry point"),
        ({"vary-input:topic": "tea", "cache_warmup": "loudly"}, "Choose one of these"),
        ({"vary-output:task-2": "[1]"}, "must be a JSON object"),
        ({"vary-input:topic": "tea", "shown": "another"}, "has changed with your last edit"),
        ({"vary-input:topic": "tea", "key": "none"}, "Some fields are missing"),
    ],
)
def test_an_invalid_sweep_shows_the_reason(
    runner: Client, checkpoint: Checkpoint, changes: dict[str, str], text: str
) -> None:
    answer = runner.post(vary(checkpoint), sent(runner, checkpoint) | changes)
    assert answer.status_code == 422 and text in answer.content.decode()
    assert not Job.objects.exists() and not Sweep.objects.exists()


def test_only_the_first_job_warms_the_cache_and_the_others_wait_for_it(
    runner: Client, checkpoint: Checkpoint
) -> None:
    form = sent(runner, checkpoint, vary_input__topic="tea\nmilk\ncocoa") | {"cache_warmup": "shared_prefix"}
    runner.post(vary(checkpoint), form)
    first, second, third = Sweep.objects.get().jobs.order_by("created_at")
    assert [job.request["options"].get("cache_warmup") for job in (first, second, third)] == [
        "shared_prefix",
        None,
        None,
    ]
    assert [waits_for_cache_warmup(job) for job in (first, second, third)] == [False, True, True]
    event = JobEvent.objects.create(job=first, seq=1, kind="cache_warmed", at=first.created_at)
    assert not waits_for_cache_warmup(second)
    event.delete()
    first.end(Job.Status.FAILED)
    assert not waits_for_cache_warmup(third)


def test_the_page_of_a_sweep_compares_its_branches(runner: Client, checkpoint: Checkpoint) -> None:
    runner.post(vary(checkpoint), sent(runner, checkpoint, vary_input__topic="tea\nmilk"))
    group = Sweep.objects.get()
    first, second = group.jobs.order_by("created_at")
    assert 'hx-trigger="every 2s"' in runner.get(group.get_absolute_url()).content.decode()
    first.end(Job.Status.SUCCEEDED, result="A warm text")
    second.end(Job.Status.SUCCEEDED, result="A <b>cold</b> text")
    text = runner.get(group.get_absolute_url()).content.decode()
    assert "topic: tea" in text and "tone/milk" in text and "every 2s" not in text
    assert "<ins>&lt;b&gt;cold&lt;/b&gt;</ins>" in text and "<ins>warm" not in text
    other = runner.get(group.get_absolute_url() + f"?against={second.pk}").content.decode()
    assert "<ins>warm</ins>" in other
    # A job of the sweep and its checkpoint link to the page.
    assert group.get_absolute_url() in runner.get(first.get_absolute_url()).content.decode()
    assert vary(checkpoint) in runner.get(checkpoint.get_absolute_url()).content.decode()


def test_a_page_whose_branches_a_limit_holds_refreshes_less_often(
    runner: Client, checkpoint: Checkpoint
) -> None:
    form = sent(runner, checkpoint, vary_input__topic="tea\nmilk") | {"limit_tokens": "50"}
    runner.post(vary(checkpoint), form)
    group = Sweep.objects.get()
    first, second = group.jobs.order_by("created_at")
    Job.objects.filter(pk=first.pk).update(status=Job.Status.RUNNING, started_at=timezone.now(), tokens=50)
    assert "every 2s" in runner.get(group.get_absolute_url()).content.decode()
    first.refresh_from_db()
    first.end(Job.Status.CANCELLED)
    text = runner.get(group.get_absolute_url()).content.decode()
    assert "every 8s" in text and "sweep&#x27;s limit of 50 tokens is reached" in text
    second.end(Job.Status.CANCELLED)
    text = runner.get(group.get_absolute_url()).content.decode()
    assert "is reached" not in text and "every 8s" not in text and "every 2s" not in text


def test_losses_have_to_be_accepted_for_all_variations(runner: Client, checkpoint: Checkpoint) -> None:
    lost = {"what": "guardrails", "name": "no_shouting", "task": 3, "agent": "", "fate": "lost"}
    checked(checkpoint, components=[lost])
    form = sent(runner, checkpoint, vary_input__topic="tea\nmilk")
    answer = runner.post(vary(checkpoint), form)
    assert answer.status_code == 422 and not Job.objects.exists()
    agreed = re.search(r'name="accepted" value="([^"]+)"', answer.content.decode())
    assert agreed
    assert runner.post(vary(checkpoint), form | {"accepted": agreed[1]}).status_code == 302
    assert all(job.request["options"]["accepted"] for job in Job.objects.all())
