"""Entries -> what is to be stored of them, or why they cannot be read."""

import os
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from viewer.models import Location
from viewer.providers.helper import MOST_HELPERS, Helper, Turn, helpers_at_hand, start_ahead
from viewer.providers.packing import Packed, read_packed
from viewer.providers.snapshot import Entry, Fault, Limits, Provider

# From so many on, another process is worth its start.
WORTH_HELPERS = 300
# So many at a time, and so many times ahead of the answers.
ENTRIES_A_TURN, TURNS_AHEAD = 10, 12


def expect_import() -> None:
    """Be ready for a large import that may come soon: have the other processes started by then."""
    start_ahead(helper_count())


def helper_count() -> int:
    """How many processes read beside this one: one for each further core."""
    return min(MOST_HELPERS, len(os.sched_getaffinity(0)) - 1)


def read_all(
    location: Location, provider: Provider, entries: Sequence[Entry], limits: Limits
) -> Iterator[Packed | Fault]:
    """Each entry's checkpoint or fault, about in order."""
    count = helper_count()
    if provider.kind == "json" and len(entries) >= WORTH_HELPERS and count:
        turns = [
            Turn(location.path, limits, entries[at : at + ENTRIES_A_TURN])
            for at in range(0, len(entries), ENTRIES_A_TURN)
        ]
        with helpers_at_hand(count) as helpers:
            yield from _read_together(provider, deque(turns), helpers)
    else:
        for entry in entries:
            yield read_packed(provider, entry)


def _read_together(
    provider: Provider, turns: deque[Turn], helpers: Sequence[Helper]
) -> Iterator[Packed | Fault]:
    """This process reads too; each takes the next few as it gets done with the last."""
    try:
        while turns or any(helper.waiting for helper in helpers):
            for helper in helpers:
                # Less ahead towards the end, so that none waits long for the others.
                while turns and len(helper.waiting) < max(1, min(TURNS_AHEAD, len(turns) // 4)):
                    helper.send(turns.popleft())
                while helper.waiting and (not turns or helper.has_answered()):
                    answer = helper.answer()
                    yield from answer.read
                    yield from answer.faults
            for entry in turns.popleft().entries if turns else ():
                yield read_packed(provider, entry)
    except (OSError, EOFError, msgspec.MsgspecError):
        # One was killed. What none has answered is still to be read.
        for turn in [*(turn for helper in helpers for turn in helper.waiting), *turns]:
            for entry in turn.entries:
                yield read_packed(provider, entry)
