"""The names of forks: of their edits, unique, and without a secret."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.views.forking import CREW, SECRET, create_location, stored
from viewer.engines.plan import Edits
from viewer.launching.requests import Dimension, ForkRequest, SweepRequest, fork_branch, sweep_prefix
from viewer.models import Job
from viewer.records.bodies import stored_contents


@pytest.fixture
def request_of(db: None, tmp_path: Path) -> ForkRequest:
    checkpoint = stored(create_location(tmp_path), CREW)
    return ForkRequest(
        checkpoint=checkpoint,
        contents=stored_contents(checkpoint),
        project=checkpoint.location.project,
        entry_point="",
        branch="",
    )


@pytest.mark.parametrize(
    ("edits", "name"),
    [
        ({"inputs": {"year": 2030}}, "year-2030"),
        ({"inputs": {"topic": "Tea in\nJapan"}}, "topic-edited"),
        ({"inputs": {"api_key": "plain"}}, "api-key-edited"),
        ({"inputs": {"topic": SECRET}}, "topic-edited"),
        ({"inputs": {"sources": ["a", "b"]}}, "sources-edited"),
        ({"state": {"is_done": True}}, "is-done-true"),
        ({"answers": {"id": "approve"}}, "approve"),
        ({"answers": {"id": {"decision": "edit"}}}, "answer-edited"),
        ({"answers": {"id": SECRET}}, "answer-edited"),
        ({}, "fork"),
    ],
)
def test_a_fork_is_named_for_what_is_edited(
    request_of: ForkRequest, edits: dict[str, Any], name: str
) -> None:
    assert fork_branch(replace(request_of, edits=Edits(**edits))) == name


def test_an_edited_output_and_a_model_are_named(request_of: ForkRequest) -> None:
    unit = "task-1"
    named = fork_branch(replace(request_of, edits=Edits(outputs={unit: {"text": "x"}})))
    assert named == "task-1-about-ai-edited"
    assert fork_branch(replace(request_of, models={"Writer": "gpt-4o-mini"})) == "model-gpt-4o-mini"


def test_a_second_fork_of_the_same_edit_gets_a_number_and_the_same_form_does_not(
    request_of: ForkRequest,
) -> None:
    request = replace(request_of, edits=Edits(inputs={"year": 2030}), key=uuid.uuid4())
    location = request.checkpoint.location
    Job.objects.create(kind=Job.Kind.FORK, location=location, branch="year-2030", idempotency_key=request.key)
    assert fork_branch(request) == "year-2030"
    assert fork_branch(replace(request, key=uuid.uuid4())) == "year-2030-2"


def test_the_forks_of_a_sweep_begin_with_what_differs(request_of: ForkRequest) -> None:
    request = SweepRequest(
        checkpoint=request_of.checkpoint,
        contents=request_of.contents,
        project=request_of.project,
        entry_point="",
        prefix="",
        dimensions=[Dimension("input", "year", "year", [2027, 2028])],
    )
    assert sweep_prefix(request) == "year"
    location = request.checkpoint.location
    Job.objects.create(kind=Job.Kind.FORK, location=location, branch="year/2027")
    assert sweep_prefix(request) == "year-2"
    assert sweep_prefix(replace(request, dimensions=())) == "values"
