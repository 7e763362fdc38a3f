"""Breakpoints, configurable values and context in the form, the terminal and a job's row."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError
from django.http import QueryDict
from django.test import Client

from tests.langgraph.conftest import opened
from viewer.cli.options import run_settings_of
from viewer.engines import engine_named
from viewer.engines.entry_points import InputName
from viewer.engines.plan import NO_SETTINGS, Edits, RunSettings, Schema
from viewer.engines.protocol import kind_of
from viewer.launching.options import MAX_BREAKPOINTS
from viewer.launching.refusals import settings_refusals
from viewer.models import Job, Location, Project
from viewer.presentation.jobs.pages import retry_url
from viewer.presentation.jobs.status import hint, status_label
from viewer.records.runner_requests import request_for
from viewer.web.launch.options import RunSettingsPart, run_settings_part

GRAPH = kind_of(engine_named("langgraph"), "graph")
SCHEMA = Schema(units=("draft", "approve"), context=(InputName("tries", int),))


def part_of(sent: str) -> RunSettingsPart:
    found = run_settings_part(GRAPH, SCHEMA, QueryDict(sent))
    assert found is not None
    return found


def test_a_form_gives_the_chosen_settings() -> None:
    sent = "stop_before=approve&stop_after=draft&stop_after=other&context:tries=3"
    part = part_of(sent + '&configurable-more={"tone": "warm"}')
    assert part.values == RunSettings(("approve",), ("draft", "other"), {"tone": "warm"}, {"tries": 3})
    assert part.summary == "before approve, after draft, other, tone, tries"
    assert [row.name for row in part.rows] == ["draft", "approve", "other", "*"]


def test_an_empty_form_gives_no_settings() -> None:
    part = part_of("context:tries=")
    assert part.values == NO_SETTINGS and not part.is_open


def test_a_wrong_value_is_an_error_of_its_field() -> None:
    part = part_of("context:tries=many")
    assert part.is_open and "whole number" in part.context.fields[0].error


def test_too_many_breakpoints_are_refused_in_the_form_and_at_the_terminal() -> None:
    names = [f"node-{number}" for number in range(MAX_BREAKPOINTS + 1)]
    part = part_of("&".join(f"stop_before={name}" for name in names))
    assert part.error == "There are 200 breakpoints at most."
    with pytest.raises(CommandError, match=part.error):
        run_settings_of({"stop_before": names, "stop_after": []})


def test_kinds_without_run_settings_have_no_part_and_refuse_them() -> None:
    crew = kind_of(engine_named("crewai"), "crew")
    assert run_settings_part(crew, SCHEMA, None) is None
    assert settings_refusals(RunSettings(stop_before=("x",)), crew)
    assert not settings_refusals(NO_SETTINGS, crew) and not settings_refusals(part_of("").values, GRAPH)


def test_typed_values_are_deleted_from_the_row_when_the_job_has_ended(
    threads: Callable[[str], Location],
) -> None:
    row = opened(threads("lg12"), "appr-waiting").checkpoints.latest("row")
    settings = RunSettings(("x",), (), {"token": "a-secret"}, {"user": "ada"})
    answers = Edits(answers={"": "a-password"})
    asked = request_for(row, Job.Kind.FORK, "b", answers, [], settings=settings)
    assert asked["configurable"] == {"token": "a-secret"} and asked["context"] == {"user": "ada"}
    job = Job.objects.create(kind=Job.Kind.FORK, location=row.location, branch="b", request=asked)
    job.end(Job.Status.SUCCEEDED)
    kept = str(Job.objects.get().request)
    assert "a-secret" not in kept and "a-password" not in kept and "ada" not in kept


@pytest.mark.django_db
def test_a_job_at_a_breakpoint_shows_that(threads: Callable[[str], Location]) -> None:
    job = Job.objects.create(kind=Job.Kind.FORK, location=threads("lg12"), branch="b")
    job.record_breakpoint(["approve"])
    job.end(Job.Status.SUCCEEDED)
    assert status_label(job) == "waiting at a breakpoint" and "Next: approve" in hint(job)


@pytest.mark.django_db
def test_a_new_run_is_retried_with_its_configurable_values_and_context(
    threads: Callable[[str], Location], runner: Client
) -> None:
    location = threads("lg12")
    location.project = Project.objects.create(
        host=location.host, folder="/srv/app", entry_points=["app:graph"]
    )
    location.project.confirm(None)
    location.save()
    kept: dict[str, dict[str, object]] = {
        "inputs": {},
        "configurable": {"user": "ada"},
        "context": {"tries": 7},
    }
    job = Job.objects.create(
        kind=Job.Kind.RUN,
        location=location,
        project=location.project,
        status=Job.Status.FAILED,
        request={
            "entry_point": "app:graph",
            **{part: dict.fromkeys(values) for part, values in kept.items()},
            "kept": kept,
            "options": {"stop_before": ["draft"]},
        },
    )
    text = runner.get(retry_url(job)).content.decode()
    assert "&quot;user&quot;: &quot;ada&quot;" in text and "&quot;tries&quot;: 7" in text
