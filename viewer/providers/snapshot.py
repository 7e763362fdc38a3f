"""The values that every provider yields. Plain data: no Django, no engine."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

EntityType = Literal["crew", "flow", "agent", "unknown"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One checkpoint that stands at a location, not read yet.

    ``key`` finds it again inside its location (a relative path, or a row's id). ``fingerprint``
    changes whenever its bytes may have changed, and costs no reading of them.
    """

    key: str
    fingerprint: str
    size: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something at a location that is not a readable checkpoint, and why."""

    key: str
    reason: str
    # writing: it may still become whole. broken: it will not. foreign: it is something else.
    kind: Literal["writing", "broken", "foreign"]
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One checkpoint, read: what a row of the list needs, and its redacted body.

    ``event_ids`` are all events of the record, oldest first; ``parent_id`` is what was recorded,
    ``None`` where nothing was; ``records_parents`` is false for the formats that cannot say.
    """

    key: str
    fingerprint: str
    size: int
    checkpoint_id: str
    parent_id: str | None
    records_parents: bool
    branch: str
    trigger: str
    created_at: datetime | None
    engine_version: str
    entity: EntityType
    name: str
    run_key: str
    tasks_done: int
    tasks_total: int
    tokens: int
    event_ids: tuple[str, ...]
    body: bytes = field(repr=False)


# The redacted checkpoint, decoded for reading: what `info` and the detail panels show.
Body = dict[str, Any]
