"""The socket of a page that shows a location or one of its runs."""

from viewer.consumers.rows import FeedConsumer
from viewer.live import location_feed, tail
from viewer.models import Location


class LocationConsumer(FeedConsumer):
    """Notify a page of changes to its location, which is polled while the page is open."""

    location: Location | None = None

    async def is_there(self) -> bool:
        found = await Location.objects.filter(uid=self.address["uid"]).afirst()
        self.location = self.location or found
        return found is not None

    async def begin(self) -> None:
        assert self.location
        uid = self.address["uid"]
        shown = set(self.query_parameter("shown").split(","))
        self.feed = location_feed.LocationFeed(uid, shown, can_run=self.can_run)
        self.watch(self.location)
        await self.join(tail.location_group(uid))

    def next_message(self) -> str | None:
        return location_feed.next_message(self.feed)
