"""What can go wrong at a location.

Unreadable                   one file or row; its neighbours are unaffected
├── Incomplete               it does not parse, and may still be being written
├── Broken                   it is damaged
├── LimitExceeded            reading it exceeds a limit
├── Foreign                  it is not a checkpoint
└── Unavailable              its bytes could not be read, so nothing is known about them
LocationUnreadable           the whole location
├── LocationLimitExceeded    reading it exceeds a limit
└── LocationReplaced         its path leads to something other than what was added
"""

from viewer.messages.message import UserFacingError
from viewer.stores.protocol import Entry, ProblemKind, ReadLimits


class Unreadable(UserFacingError):
    """One file or row cannot be read. The message is the reason.

    ``entry`` is the entry that was read if it is newer than the listed one.
    """

    kind: ProblemKind = "broken"
    entry: "Entry | None" = None


class Incomplete(Unreadable):
    """It does not parse. It may still be being written; only its age shows whether it is damaged."""

    kind: ProblemKind = "writing"


class Broken(Unreadable):
    """It is damaged."""


class LimitExceeded(Unreadable):
    """It is larger or deeper, or takes more time or memory, than the limits allow."""

    kind: ProblemKind = "refused"


class Foreign(Unreadable):
    """It is complete, but not a checkpoint."""

    kind: ProblemKind = "foreign"


class Unavailable(Unreadable):
    """Its bytes could not be read this time. The next import tries again."""

    kind: ProblemKind = "unavailable"


class LocationUnreadable(UserFacingError):
    """Nothing at the location can be read. The message says why, and what to do."""


class LocationLimitExceeded(LocationUnreadable):
    """Listing the location exceeds a limit. It is not tried again until the location changes."""


class LocationReplaced(LocationUnreadable):
    """The path leads to something other than what was added.

    ``identity`` identifies the folder or file at the path now; empty if it must not be opened at all.
    """

    identity: str = ""


def too_slow(limits: ReadLimits) -> LimitExceeded:
    """The error for an entry that takes too much processor time."""
    return LimitExceeded("store.parse_timed_out", most=f"{limits.max_seconds:g}")


def too_large(size: int, limits: ReadLimits) -> LimitExceeded:
    """The error for an entry of this many bytes."""
    return LimitExceeded(
        "store.file_too_large",
        size=f"{size:,}",
        most=f"{limits.max_bytes:,}",
    )


def too_much_memory(limits: ReadLimits) -> LimitExceeded:
    """The error for an entry that takes too much memory."""
    return LimitExceeded("store.too_much_memory", most=limits.max_memory // 2**20)
