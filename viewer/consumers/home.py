"""The socket of the home page."""

from viewer.consumers.rows import FeedConsumer
from viewer.live import home_feed, tail, watch


class HomeConsumer(FeedConsumer):
    """Notify the home page of changes anywhere. All locations are polled, in turn, while it is open."""

    is_watching = False

    async def is_there(self) -> bool:
        return True

    async def begin(self) -> None:
        self.feed = home_feed.HomeFeed()
        watch.begin_all()
        self.is_watching = True
        await self.join(tail.HOME)

    async def disconnect(self, code: int) -> None:
        if self.is_watching:
            self.is_watching = False
            watch.end_all()
        await super().disconnect(code)

    def next_message(self) -> str | None:
        return home_feed.next_message(self.feed)
