"""What a person chooses to prune by."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from viewer.models import Checkpoint

# The largest number of checkpoints of each branch that stay.
MAX_LATEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """A checkpoint is pruned if all rules that are given hold: its age, its position and its branch.

    ``days`` is the least age, ``latest`` how many of the newest of each branch stay. With ``copies``, the
    stored copies are deleted, too, also those of matching checkpoints that were pruned before.
    """

    days: int | None = None
    latest: int | None = None
    branch: str = ""
    copies: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no rule is given. Nothing is pruned then."""
        return self.days is None and self.latest is None and not self.branch

    def holds(self, row: Checkpoint, index: int, now: datetime) -> bool:
        """Whether a checkpoint is to be pruned. ``index`` is 0 for the newest of its branch in its run."""
        if self.is_empty:
            return False
        if self.branch and row.branch != self.branch:
            return False
        if self.latest is not None and index < self.latest:
            return False
        if self.days is None:
            return True
        return row.created_at is not None and now - row.created_at >= timedelta(days=self.days)
