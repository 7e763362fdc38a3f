"""Answers of replayed model calls, next to the recorded one."""

from uuid import uuid4

import pytest
from django.utils import timezone

from viewer.models import Checkpoint, Job, JobEvent, Run
from viewer.presentation.calls import replayed_answer, replays_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def checkpoint(crew_run: Run) -> Checkpoint:
    return crew_run.checkpoints.latest("row")


def replay(checkpoint: Checkpoint, name: str, **values: object) -> Job:
    """A job that replayed the call of this name, with one answer."""
    job = Job.objects.create(
        **{"kind": "replay", "location": checkpoint.location, "run": checkpoint.run} | values,
        checkpoint=checkpoint,
        request={"replay": {"recorded": name}},
    )
    JobEvent.objects.create(job=job, seq=1, kind="call_replayed", at=timezone.now(), data={"text": "Green"})
    return job


def test_an_answer_belongs_to_the_call_whose_replays_are_listed(checkpoint: Checkpoint) -> None:
    own = replay(checkpoint, "a")
    others = [
        replay(checkpoint, "b"),
        replay(checkpoint, "a", kind="fork"),
        replay(checkpoint, "a", run=None),
    ]
    assert replays_of(checkpoint, "a") == [own]
    answer = replayed_answer(f"{own.pk}:1", checkpoint, "a")
    assert answer and answer.text == "Green"
    for job in others:
        assert replayed_answer(f"{job.pk}:1", checkpoint, "a") is None


@pytest.mark.parametrize("number", ["", "0", "2", "-1", "²", "x", "9" * 5000])
def test_a_number_that_no_answer_has_is_none(checkpoint: Checkpoint, number: str) -> None:
    job = replay(checkpoint, "a")
    assert replayed_answer(f"{job.pk}:{number}", checkpoint, "a") is None
    assert replayed_answer(f"{uuid4()}:1", checkpoint, "a") is None
    assert replayed_answer(number, checkpoint, "a") is None
