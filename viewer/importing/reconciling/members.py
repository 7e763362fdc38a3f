"""The checkpoints of the runs that an import affects."""

from dataclasses import dataclass
from datetime import datetime

from viewer.importing.reconciling.rows import LineageColumns
from viewer.stores.packing import Packed


@dataclass(slots=True)
class Member:
    """A checkpoint of an affected run, stored or just read."""

    # None until it is stored.
    pk: int | None
    key: str
    checkpoint_id: str
    parent_id: str | None
    run_key: str
    branch: str
    created_at: datetime | None
    event_count: int
    entity: str
    name: str
    units_done: int
    units_total: int
    trigger: str
    # Checkpoint.ended_as
    ended_as: str = ""
    read: Packed | None = None
    before: LineageColumns | None = None
