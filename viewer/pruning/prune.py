"""Delete what a person has confirmed."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewer.importing import import_location
from viewer.importing.addresses import address_of
from viewer.importing.import_lock import import_lock
from viewer.importing.reconciling.rows import in_slices, keyed_digest
from viewer.messages.message import UserFacingError
from viewer.models import Checkpoint, Location, StoredCopy
from viewer.pruning.copies import delete_copies
from viewer.pruning.plan import PrunePlan, is_prunable, plan_prune, prune_blocker
from viewer.pruning.rules import Rules
from viewer.stores.deleting import Kept, RowChanged, delete_entries
from viewer.stores.errors import LocationUnreadable
from viewer.stores.protocol import Entry

logger = logging.getLogger("forkline.pruning")


class PruneRefused(UserFacingError):
    """The location cannot be pruned, or the list is not the one that was confirmed. Nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The source keys that were deleted, which were not, and how many stored copies were deleted."""

    deleted: Sequence[str]
    kept: Sequence[Kept] = ()
    copies: int = 0

    @property
    def count(self) -> int:
        """How many checkpoints were deleted at their source."""
        return len(self.deleted)


def fresh_plan(location: Location, rules: Rules) -> PrunePlan:
    """What these rules would delete of a location as it is now. Raises PruneRefused."""
    _read_undigested_again(location)
    import_location(location)
    location.refresh_from_db()
    if (blocker := prune_blocker(location, rules)) is not None:
        raise PruneRefused(blocker.code, **blocker.values)
    return plan_prune(location, rules)


def prune(location: Location, rules: Rules, digest: str) -> Pruned:
    """Delete the list that has this digest, which a person confirmed. It says whether copies are deleted.

    Raises PruneRefused if the list is another one by now, or the location cannot be changed. Nothing was
    deleted then.
    """
    plan = fresh_plan(location, rules)
    if not (plan.rows or plan.pruned) or plan.digest != digest:
        raise PruneRefused("prune.plan_changed")
    try:
        with import_lock(location):
            address, is_recorded = address_of(location), recorded_in(plan)
            kept = delete_entries(address, plan.entries, is_recorded) if plan.rows else []
    except LocationUnreadable as error:
        if isinstance(error, RowChanged):
            # Its fingerprint is the same, so that an import would not read it again.
            location.checkpoints.filter(source_key=error.key).update(fingerprint="")
        raise PruneRefused(error.message.code, **error.message.values) from None
    not_deleted = {one.key for one in kept}
    deleted = [row.source_key for row in plan.rows if row.source_key not in not_deleted]
    logger.info("pruned %d checkpoints of %s", len(deleted), location.path)
    import_location(location)
    copies = delete_copies(location, [*plan.rows, *plan.pruned]) if plan.deletes_copies else 0
    return Pruned(deleted, kept, copies)


def recorded_in(plan: PrunePlan) -> Callable[[Entry, str], bool]:
    """Return whether the stored copy of an entry was read from a row with this digest."""
    recorded: dict[str, str] = {}
    for some in in_slices([row.pk for row in plan.rows]):
        copies = StoredCopy.objects.filter(checkpoint__in=some)
        recorded.update(copies.values_list("checkpoint__source_key", "source_digest"))
    return lambda entry, digest: recorded.get(entry.key) == keyed_digest(digest) != ""


def _read_undigested_again(location: Location) -> None:
    """Make the next import read the rows whose copies have no digest, because an older version read them."""
    if location.store_kind == Location.StoreKind.SQLITE and is_prunable(location):
        undigested = StoredCopy.objects.filter(source_digest="").exclude(data=b"")
        present = location.checkpoints.filter(state=Checkpoint.State.PRESENT)
        present.filter(stored_copy__in=undigested).exclude(fingerprint="").update(fingerprint="")
