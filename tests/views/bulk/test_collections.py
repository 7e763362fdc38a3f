"""The checkpoints of a collection are forked at once, and scored next to what was recorded."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.bulk.test_bulk import OTHER, shown
from tests.views.forking import CREW, stored
from viewer.host.jobs.following import queue_score
from viewer.models import Checkpoint, Collection, CollectionItem, Job, Location, Sweep
from viewer.presentation.comparison_sides import by_score
from viewer.presentation.jobs.events import Progress
from viewer.presentation.sweeps import ComparedBranch, MeanDifference, mean_difference, mean_difference_of
from viewer.records.collections import Subject, add_items, collection_named, recorded_scoring_of, scoring_of


@pytest.fixture
def collection(location: Location) -> Collection:
    """A collection of two checkpoints, one with an expected answer, and of one that is elsewhere."""
    collection = collection_named("teas", None)
    add_items(collection, [Subject(stored(location, CREW))], None, expected="Green")
    add_items(collection, [Subject(stored(location, OTHER))], None)
    CollectionItem.objects.create(
        collection=collection, kind="checkpoint", location_uid=location.uid, run_key="x", checkpoint_id="gone"
    )
    return collection


def sent(client: Client, collection: Collection, **fields: str) -> dict[str, Any]:
    page = client.get(reverse("bulk-fork"), {"collection": collection.pk})
    form = {"collection": str(collection.pk), "key": str(page.context["page"].key), **fields}
    form |= {"part": "value", "name": "topic", "text": "tea", "again_stale": "1"}
    return form | {"shown": shown(client.post(reverse("bulk-fork-plan"), form).content.decode())}


def test_each_is_forked_once_and_what_was_recorded_is_scored(
    client: Client, person: User, collection: Collection
) -> None:
    form = sent(client, collection, score="judge:done")
    text = client.post(reverse("bulk-fork-plan"), form).content.decode()
    assert "Start 2 forks" in text and "It was not found here." in text and "“teas”" in text
    for _time in range(2):
        assert client.post(reverse("bulk-fork"), form).status_code == 302
    sweep = Sweep.objects.get()
    assert (sweep.collection, sweep.score) == (collection, "judge:done")
    jobs = list(sweep.branches)
    recorded = recorded_scoring_of(jobs)
    assert Job.objects.count() == 4 and [job.kind for job in jobs] == ["fork", "fork"]
    assert [recorded[job.pk].checkpoint for job in jobs] == [job.checkpoint for job in jobs]
    assert [recorded[job.pk].request.get("expected") for job in jobs] == ["Green", None]
    for job, score in zip(jobs, (0.5, 1), strict=True):
        recorded[job.pk].end(Job.Status.SUCCEEDED, result=json.dumps(score))
        job.end(Job.Status.SUCCEEDED)
        checkpoint = job.checkpoint
        assert checkpoint
        Job.objects.filter(pk=job.pk).update(run=checkpoint.run)
        Checkpoint.objects.filter(pk=checkpoint.pk).update(recorded_branch=job.branch)
        job.refresh_from_db()
        queue_score(job)
    scoring = scoring_of(jobs)
    assert [scoring[job.pk].request.get("expected") for job in jobs] == ["Green", None]
    for job, score in zip(jobs, (0.75, 0.25), strict=True):
        scoring[job.pk].end(Job.Status.SUCCEEDED, result=json.dumps(score))
    page = client.get(sweep.get_absolute_url()).content.decode()
    assert (
        "Mean difference -0.25, of 2 pairs." in page and "95 % confidence interval: -6.603 to 6.103." in page
    )
    assert page.index("topic-tea-2") < page.index("topic-tea<"), "the loser is first"
    page = client.get(sweep.get_absolute_url(), {"sort": "-difference"}).content.decode()
    assert page.index("topic-tea<") < page.index("topic-tea-2")


def test_a_function_that_is_none_starts_nothing(client: Client, person: User, collection: Collection) -> None:
    form = sent(client, collection, score="not a function")
    answer = client.post(reverse("bulk-fork"), form)
    assert answer.status_code == 422 and "module:function" in answer.content.decode()
    assert not Sweep.objects.exists()


def test_a_collection_that_is_too_large_starts_nothing(
    client: Client, person: User, collection: Collection
) -> None:
    items = [
        CollectionItem(kind="checkpoint", location_uid="1" * 32, run_key="x", checkpoint_id=str(number))
        for number in range(60)
    ]
    for item in items:
        item.collection = collection
    CollectionItem.objects.bulk_create(items)
    page = client.get(reverse("bulk-fork"), {"collection": collection.pk}).content.decode()
    assert "At most 50 can start at once." in page
    assert client.get(reverse("bulk-fork"), {"collection": "9" * 40}).status_code == 200


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], None),
        ([0.5], MeanDifference(1, 0.5)),
        ([0.5, 0.5], MeanDifference(2, 0.5)),
        ([1.7e308, -1.7e308], None),
    ],
)
def test_there_is_no_interval_without_spread(
    differences: list[float], expected: MeanDifference | None
) -> None:
    assert mean_difference(differences) == expected


def test_the_interval_is_that_of_students_t() -> None:
    found = mean_difference([0.1, 0.2, 0.4, -0.1])
    assert found is not None and found.low is not None and found.high is not None
    # As scipy.stats.ttest_1samp(…).confidence_interval().
    assert (found.low, found.high) == pytest.approx((-0.18123951344178552, 0.48123951344178556))


def test_scores_that_are_too_large_have_no_difference() -> None:
    def job(result: str) -> Job:
        return Job(status=Job.Status.SUCCEEDED, result=result)

    for after, before in (("1e308", "-1e308"), ("9" * 400, "1"), ("1", "1e999"), ("NaN", "1")):
        one = ComparedBranch(Job(), Progress(), job(after), job(before))
        assert one.difference is None and one.score_text and by_score([one.score], highest_first=True) == [0]
        assert mean_difference_of([one]) is None
