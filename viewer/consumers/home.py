"""The socket of the home page."""

from viewer.consumers.rows import FeedConsumer
from viewer.live import home_feed, tail


class HomeConsumer(FeedConsumer):
    """Notify the home page of changes anywhere. All locations are polled, in turn, while it is open."""

    async def is_there(self) -> bool:
        return True

    async def begin(self) -> None:
        self.feed = home_feed.HomeFeed()
        self.watch(None)
        await self.join(tail.HOME)

    def next_message(self) -> str | None:
        return home_feed.next_message(self.feed)
