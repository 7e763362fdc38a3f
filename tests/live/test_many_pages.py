"""Many pages of one job: each message is rendered once and sent to all of them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from tests.live.conftest import event
from tests.live.test_job_socket import SEQ
from viewer.models import Job, JobEvent
from viewer.web.live import broadcast
from viewer.web.live.consumer import MAX_WAITING, PageConsumer
from viewer.web.live.feeds import NORMAL_CLOSURE, NOT_THERE, TRY_AGAIN_LATER, JobFeed

pytestmark = pytest.mark.django_db(transaction=True)
MAX_SECONDS = 30


@dataclass(eq=False)
class Page:
    """A socket that keeps what it receives."""

    messages: list[str] = field(default_factory=list)
    code: int | None = None
    has_ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, text_data: str) -> None:
        self.put(text_data)

    def put(self, message: str) -> None:
        self.messages.append(message)
        self.news.set()

    def put_end(self, code: int) -> None:
        self.code = code
        self.news.set()

    @property
    def seqs(self) -> list[int]:
        return [int(seq) for message in self.messages for seq in SEQ.findall(message)]

    async def until_closed(self) -> None:
        async with asyncio.timeout(MAX_SECONDS):
            while self.code is None:
                self.news.clear()
                await self.news.wait()

    async def until(self, seq: int) -> None:
        """Wait until this event has been received."""
        async with asyncio.timeout(MAX_SECONDS):
            while seq not in self.seqs:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def pages() -> AsyncIterator[list[Page]]:
    """Return pages that leave at the end."""
    opened = [Page() for _ in range(4)]
    yield opened
    for page in opened:
        broadcast.leave(page)


async def join(page: Page, job: Job, after: int = 0) -> None:
    await broadcast.join(page, JobFeed(job.pk, after=after, whole=True), "en")


async def write(job: Job, *seqs: int) -> None:
    await JobEvent.objects.abulk_create([event(job, seq) for seq in seqs])


async def test_a_message_is_rendered_once_for_all_pages(job: Job, pages: list[Page]) -> None:
    for page in pages:
        await join(page, job)
    await write(job, 1, 2)
    for page in pages:
        await page.until(2)
    last = {id(page.messages[-1]) for page in pages}
    assert len(last) == 1
    assert [page.seqs for page in pages] == [[1, 2]] * 4


async def test_pages_that_are_opened_together_share_their_first_message(job: Job, pages: list[Page]) -> None:
    await write(job, 1, 2)
    await asyncio.gather(*(join(page, job) for page in pages))
    assert len({id(page.messages[0]) for page in pages}) == 1
    await write(job, 3)
    for page in pages:
        await page.until(3)
        assert page.seqs == [1, 2, 3]


async def test_pages_that_are_opened_together_have_progress_of_their_own(job: Job, pages: list[Page]) -> None:
    await write(job, *range(1, 601))
    await asyncio.gather(*(join(page, job, after=number % 2 * 250) for number, page in enumerate(pages)))
    await write(job, 601)
    for number, page in enumerate(pages):
        await page.until(601)
        assert page.seqs == list(range(number % 2 * 250 + 1, 602))


async def test_a_failed_first_message_fails_for_each_page(
    job: Job, pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def failed(*_arguments: object) -> str:
            raise OSError(5, "Input/output error")

        patched.setattr(JobFeed, "next_message", failed)
        joined = await asyncio.gather(*(join(page, job) for page in pages[:2]), return_exceptions=True)
    assert [type(error) for error in joined] == [OSError, OSError]
    await write(job, 1)
    await join(pages[2], job)
    assert pages[2].seqs == [1]


async def test_pages_that_join_during_a_run_receive_each_event_once(job: Job, pages: list[Page]) -> None:
    for number, page in enumerate(pages):
        await write(job, *range(number * 300 + 1, number * 300 + 301))
        await join(page, job, after=number * 100)
    await write(job, 1201)
    for number, page in enumerate(pages):
        await page.until(1201)
        assert page.seqs == list(range(number * 100 + 1, 1202))


async def test_a_page_receives_what_others_receive_before_it_joins(
    job: Job, pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, late, *_ = pages
    await broadcast.join(other, JobFeed(job.pk, after=0, whole=True, can_run=True), "en")
    add = broadcast.add

    async def add_after_an_event(*arguments: Any) -> None:
        await write(job, 1)
        await other.until(1)
        await add(*arguments)

    monkeypatch.setattr(broadcast, "add", add_after_an_event)
    await join(late, job)
    await late.until(1)
    assert (other.seqs, late.seqs) == ([1], [1])


async def test_a_page_that_claims_later_events_does_not_hide_them_from_others(
    job: Job, pages: list[Page]
) -> None:
    liar, other, *_ = pages
    await join(liar, job, after=1_000_000)
    await join(other, job)
    await write(job, 1)
    await other.until(1)
    await liar.until(1)


async def test_the_end_follows_the_last_event(job: Job, pages: list[Page]) -> None:
    page, late, *_ = pages
    await join(page, job)
    await write(job, 1)
    await Job.objects.filter(pk=job.pk).aupdate(status=Job.Status.SUCCEEDED)
    await page.until_closed()
    await join(late, job)
    assert (page.seqs, page.code) == (late.seqs, late.code) == ([1], NORMAL_CLOSURE)


async def test_pages_of_a_removed_job_are_notified(job: Job, pages: list[Page]) -> None:
    await join(pages[0], job)
    await job.adelete()
    await pages[0].until_closed()
    assert pages[0].code == NOT_THERE


async def test_nothing_remains_when_the_last_page_has_left(job: Job, pages: list[Page]) -> None:
    for page in pages[:2]:
        await join(page, job)
    broadcast.leave(pages[0])
    # Those of an earlier test end with its event loop.
    assert asyncio.get_running_loop() in broadcast.all_rounds
    broadcast.leave(pages[1])
    assert asyncio.get_running_loop() not in broadcast.all_rounds


async def test_a_page_that_reads_too_slowly_is_closed() -> None:
    socket = PageConsumer()
    socket.waiting = asyncio.Queue(MAX_WAITING)
    for _ in range(MAX_WAITING + 1):
        socket.put("a message")
    assert socket.waiting.get_nowait() == TRY_AGAIN_LATER
    assert socket.waiting.empty()


def test_the_page_of_a_job_and_its_bar_receive_different_messages(job: Job) -> None:
    whole, bar = JobFeed(job.pk, after=0, whole=True), JobFeed(job.pk, after=0)
    JobEvent.objects.bulk_create([event(job, 1)])
    assert SEQ.findall(whole.next_message() or "") == ["1"]
    assert SEQ.findall(bar.next_message() or "") == []


def test_a_change_and_its_reversal_are_both_sent(job: Job) -> None:
    feed = JobFeed(job.pk, after=0, whole=True)
    assert feed.next_message()
    sent = []
    for at in [timezone.now() + timedelta(hours=hours) for hours in (1, 2)] * 2:
        Job.objects.filter(pk=job.pk).update(status="queued", start_at=at)
        sent.append(feed.next_message())
        assert feed.next_message() is None
    assert all(sent)
    assert all(one != other for one, other in pairwise(sent))
