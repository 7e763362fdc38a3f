"""A run may write anything to its spool. ``make fuzz`` tries many more."""

import json
import random
from collections import Counter

import pytest
from django.test import Client
from pytest_django import Settings

from quality.fuzz.job_events import RUNNER, follow_run
from tests.api.conftest import with_token
from tests.jobs.conftest import MakeJob, finished
from viewer.models import Job, Level, Location
from viewer.records.accounts import make_token
from viewer.records.permissions import account_named


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_writes_events_of_any_type_is_followed_and_shown(
    seed: int, location: Location, admin_client: Client, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": RUNNER}
    program = with_token(make_token(account_named("admin"), "ci", Level.VIEWER)[1])
    assert not follow_run(random.Random(seed), Counter(), location, (admin_client, program))


@pytest.mark.parametrize(
    "line",
    [
        '{"seq": 9223372036854775808, "at": 1, "kind": "text", "data": {}}',
        '{"seq": 2147483648, "at": 1, "kind": "text", "data": {}}',
        '{"seq": 1e999, "at": 1, "kind": "text", "data": {}}',
        '{"seq": 5, "at": 1, "kind": "te\\u0000xt", "data": {}}',
        '{"seq": 5, "at": 1, "kind": "\\ud800", "data": {}}',
        '{"seq": 5, "at": 1, "kind": ["text"], "data": {}}',
    ],
)
def test_what_no_database_stores_is_no_event(line: str, make_job: MakeJob) -> None:
    job = make_job("output/writes_lines.py")
    assert job.project is not None
    with open(f"{job.project.folder}/lines", "w") as lines:
        lines.write(f"{line}\n")
    assert finished(job).status == Job.Status.SUCCEEDED
    assert list(job.events.values_list("kind", flat=True)) == ["started", "ended"]


@pytest.mark.parametrize("tokens", [10**30, 2**63, -1, True, "many", [1], 0.5])
def test_an_implausible_count_of_tokens_stops_no_job_from_being_followed(
    tokens: object, make_job: MakeJob
) -> None:
    job = make_job("output/writes_lines.py")
    assert job.project is not None
    event = {"seq": 2, "at": 1, "kind": "model_completed", "data": {"tokens": tokens, "total_tokens": tokens}}
    with open(f"{job.project.folder}/lines", "w") as lines:
        lines.write(f"{json.dumps(event)}\n")
    assert finished(job).status == Job.Status.SUCCEEDED
    assert job.tokens in (0, 2**40)


@pytest.mark.parametrize("depth", [90, 400, 700, 900])
@pytest.mark.parametrize("is_text", [False, True])
def test_deeply_nested_events_are_followed(depth: int, is_text: bool, make_job: MakeJob) -> None:
    job = make_job("output/writes_lines.py")
    assert job.project is not None
    nested = "[" * depth + '{"password": "sk-canary0123456789abcdefghij"}' + "]" * depth
    value = json.dumps(nested) if is_text else nested
    with open(f"{job.project.folder}/lines", "w") as lines:
        for seq, kind in enumerate(("custom", "question", "model_completed"), 2):
            data = f'{{"value": {value}, "number": 1, "prompt": {value}, "tokens": {value}}}'
            lines.write(f'{{"seq": {seq}, "at": 1, "kind": "{kind}", "data": {data}}}\n')
    assert finished(job).status == Job.Status.SUCCEEDED
    assert "sk-canary" not in str([*job.events.values_list("data"), *job.questions.values_list("prompt")])
