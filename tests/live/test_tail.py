"""Which groups a poll notifies."""

from uuid import UUID

import pytest

from viewer.models import Job
from viewer.web.live.tail import HOME, Tail, changed, job_group, location_group, share_group

pytestmark = pytest.mark.django_db


def test_a_group_is_notified_at_its_first_poll_and_when_its_rows_change(job: Job) -> None:
    tail, groups = Tail(), {job_group(job.pk), location_group(job.location.uid), HOME}
    assert changed(tail, groups) == groups
    assert changed(tail, groups) == set()
    Job.objects.filter(pk=job.pk).update(limit_hit="cost")
    assert changed(tail, groups) == {job_group(job.pk)}


def test_a_group_is_notified_once_when_its_row_is_deleted(job: Job) -> None:
    tail, groups = Tail(), {job_group(job.pk)}
    changed(tail, groups)
    job.delete()
    assert [changed(tail, groups), changed(tail, groups)] == [groups, set()]


@pytest.mark.parametrize("group", [job_group(UUID(int=1)), location_group(UUID(int=1)), share_group(1)])
def test_a_row_that_was_deleted_before_the_first_poll_is_notified(group: str) -> None:
    tail = Tail()
    assert [changed(tail, {group}), changed(tail, {group})] == [{group}, set()]
