"""How often followers read their spools.

Each read wakes a thread, which takes more processor time than the events that it finds. So the more jobs of a
process write events at the same time, the more events a follower leaves for its next read.
"""

import threading
import time
from dataclasses import dataclass, field
from uuid import UUID

# A follower of a job that writes nothing reads this often: the next event is stored at once.
POLL_SECONDS = 0.02
# The time between two reads of the process. With 20 busy jobs, each is read ten times a second.
SECONDS_A_READ = 0.005
MAX_PAUSE_SECONDS = 0.1
# A job is busy for this long after an event.
BUSY_SECONDS = 0.3


@dataclass(eq=False, slots=True)
class Pace:
    """When each busy job of this process last had events, on the monotonic clock. Thread-safe."""

    busy: dict[UUID, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pause_after_events(self, job: UUID) -> float:
        """Return how many seconds to wait before reading again, for a job that just had events."""
        now = time.monotonic()
        with self.lock:
            self.busy = {pk: at for pk, at in self.busy.items() if now - at < BUSY_SECONDS} | {job: now}
            return min(max(POLL_SECONDS, SECONDS_A_READ * len(self.busy)), MAX_PAUSE_SECONDS)


# One for all followers of this process.
pace = Pace()
