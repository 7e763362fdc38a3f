"""Which pages a round reads again, and what they receive."""

from uuid import UUID

import pytest

from viewer.models import Access, Job, Level, Location
from viewer.web.live.feeds import HOME, RowsFeed, States, changed, location_group, share_group

pytestmark = pytest.mark.django_db
ALL = Access(everywhere=Level.VIEWER)


def test_a_group_is_read_in_its_first_round_and_when_its_rows_change(job: Job) -> None:
    seen, groups = States(), {location_group(job.location.uid, ALL), HOME}
    assert changed(seen, groups) == groups
    assert changed(seen, groups) == set()
    Job.objects.filter(pk=job.pk).update(status=Job.Status.FAILED)
    assert changed(seen, groups) == groups
    Location.objects.create(path="/another", store_kind="json", revision=1)
    assert changed(seen, groups) == {HOME}


def test_a_group_is_read_once_when_its_row_is_deleted(job: Job) -> None:
    seen, groups = States(), {location_group(job.location.uid, ALL)}
    changed(seen, groups)
    job.location.delete()
    assert [changed(seen, groups), changed(seen, groups)] == [groups, set()]


@pytest.mark.parametrize("group", [location_group(UUID(int=1), ALL), share_group(1)])
def test_a_row_that_was_deleted_before_the_first_round_closes_the_socket(group: str) -> None:
    seen, feed = States(), RowsFeed(group)
    assert [changed(seen, {group}), changed(seen, {group})] == [{group}, set()]
    assert feed.next_message() is None and feed.close_code == 4404


def test_a_page_that_joins_others_receives_no_bar_twice(job: Job) -> None:
    first, second = (RowsFeed(location_group(job.location.uid, ALL)) for _page in range(2))
    assert f'data-job-bar="{job.pk}"' in (first.next_message() or "")
    assert f'data-job-bar="{job.pk}"' in (second.next_message() or "")
    new = Job.objects.create(kind="fork", location=job.location, branch="new")
    (to_first,), (to_second,) = first.align(second)
    for message in (to_first, to_second):
        assert message.count("data-job-bar=") == 1 and str(new.pk) in message
    assert (first.next_message(), second.next_message()) == (None, None)
