"""Entries -> what is to be stored of them, or why they cannot be read."""

import os
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from viewer.models import Location
from viewer.providers.helper import Helper, Turn, helper_at_hand, start_ahead
from viewer.providers.packing import Packed, read_packed
from viewer.providers.snapshot import Entry, Fault, Limits, Provider

# From so many on, a second process is worth its start.
WORTH_A_HELPER = 300
# So many at a time, and so many times ahead of the answers.
ENTRIES_A_TURN, TURNS_AHEAD = 10, 12


def expect_import() -> None:
    """Be ready for a large import that may come soon: have a second process started by then."""
    if _has_two_cores():
        start_ahead()


def _has_two_cores() -> bool:
    return len(os.sched_getaffinity(0)) > 1


def read_all(
    location: Location, provider: Provider, entries: Sequence[Entry], limits: Limits
) -> Iterator[Packed | Fault]:
    """Each entry's checkpoint or fault, about in order."""
    if provider.kind == "json" and len(entries) >= WORTH_A_HELPER and _has_two_cores():
        turns = [
            Turn(location.path, limits, entries[at : at + ENTRIES_A_TURN])
            for at in range(0, len(entries), ENTRIES_A_TURN)
        ]
        with helper_at_hand() as helper:
            yield from _read_by_two(provider, deque(turns), helper)
    else:
        for entry in entries:
            yield read_packed(provider, entry)


def _read_by_two(provider: Provider, turns: deque[Turn], helper: Helper) -> Iterator[Packed | Fault]:
    """This process reads too; each takes the next few as it gets done with the last."""
    try:
        while turns or helper.waiting:
            # Less ahead towards the end, so that neither waits long for the other.
            while turns and len(helper.waiting) < max(1, min(TURNS_AHEAD, len(turns) // 4)):
                helper.send(turns.popleft())
            while helper.waiting and (not turns or helper.has_answered()):
                answer = helper.answer()
                yield from answer.read
                yield from answer.faults
            for entry in turns.popleft().entries if turns else ():
                yield read_packed(provider, entry)
    except (OSError, EOFError, msgspec.MsgspecError):
        # It was killed. What it had not answered is still to be read.
        for turn in [*helper.waiting, *turns]:
            for entry in turn.entries:
                yield read_packed(provider, entry)
