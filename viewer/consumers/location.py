"""The socket of a page that shows a location or one of its runs."""

from viewer.consumers.rows import FeedConsumer
from viewer.live import location_feed, tail, watch
from viewer.models import Location


class LocationConsumer(FeedConsumer):
    """Notify a page of changes to its location, which is polled while the page is open."""

    location: Location | None = None
    is_watching = False

    async def is_there(self) -> bool:
        found = await Location.objects.filter(uid=self.address["uid"]).afirst()
        # Watching has to stop even if the location was removed in the meantime.
        self.location = self.location or found
        return found is not None

    async def begin(self) -> None:
        assert self.location
        uid = self.address["uid"]
        self.feed = location_feed.feed_for(uid, self.asked("shown").split(","), can_run=self.can_run)
        watch.begin(self.location)
        self.is_watching = True
        await self.join(tail.location_group(uid))

    async def disconnect(self, code: int) -> None:
        if self.location and self.is_watching:
            self.is_watching = False
            watch.end(self.location)
        await super().disconnect(code)

    def next_message(self) -> str | None:
        return location_feed.next_message(self.feed)
