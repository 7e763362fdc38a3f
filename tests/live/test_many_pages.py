"""Many pages of one job: each message is rendered once and sent to all of them."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.live.conftest import event
from tests.live.test_job_socket import SEQ
from viewer.live.job_feed import JobFeed, next_message
from viewer.models import Job, JobEvent

pytestmark = pytest.mark.django_db


def pages(job: Job, count: int) -> list[JobFeed]:
    """Return feeds that have sent all messages so far."""
    feeds = [JobFeed(job.pk, after=0, whole=True) for _ in range(count)]
    for feed in feeds:
        while next_message(feed) is not None:
            pass
    return feeds


def test_a_message_for_equal_pages_is_rendered_once(
    job: Job, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    first, *others = pages(job, 4)
    JobEvent.objects.bulk_create([event(job, 1), event(job, 2)])
    message = next_message(first)
    assert message is not None
    with django_assert_num_queries(len(others)):
        assert [next_message(feed) for feed in others] == [message] * 3
    assert [next_message(feed) for feed in (first, *others)] == [None] * 4


def test_a_page_that_is_behind_catches_up_with_rendered_messages(job: Job) -> None:
    ahead, behind = pages(job, 2)
    made = []
    for seq in (1, 2, 3):
        JobEvent.objects.bulk_create([event(job, seq)])
        made.append(next_message(ahead))
    caught_up = [next_message(behind)]
    while behind.has_more:
        caught_up.append(next_message(behind))
    assert caught_up == made
    assert [SEQ.findall(message or "") for message in made] == [["1"], ["2"], ["3"]]
    assert ahead.progress == behind.progress
    assert next_message(behind) is None


def test_the_page_of_a_job_and_its_bar_receive_different_messages(job: Job) -> None:
    whole, bar = JobFeed(job.pk, after=0, whole=True), JobFeed(job.pk, after=0)
    JobEvent.objects.bulk_create([event(job, 1)])
    assert SEQ.findall(next_message(whole) or "") == ["1"]
    assert SEQ.findall(next_message(bar) or "") == []


def test_a_change_and_its_reversal_are_both_sent(job: Job) -> None:
    moments = [timezone.now() + timedelta(hours=hours) for hours in (1, 2)]
    feeds = pages(job, 2)
    sent = []
    for at in moments * 2:
        Job.objects.filter(pk=job.pk).update(status="queued", start_at=at)
        messages = [next_message(feed) for feed in feeds]
        assert messages[0] == messages[1]
        sent.append(messages[0])
        assert [next_message(feed) for feed in feeds] == [None, None]
    assert all(sent)
    assert all(one != other for one, other in pairwise(sent))
