"""Delete what a person has confirmed."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from viewer.importing import import_location
from viewer.importing.import_lock import import_lock
from viewer.importing.limits import address_of
from viewer.messages.message import UserFacingError
from viewer.models import Location
from viewer.pruning.copies import delete_copies
from viewer.pruning.plan import PrunePlan, plan_prune, prune_blocker
from viewer.pruning.rules import Rules
from viewer.stores.deleting import Kept, delete_entries
from viewer.stores.errors import LocationUnreadable

logger = logging.getLogger("forkline.pruning")


class PruneRefused(UserFacingError):
    """The location cannot be pruned, or the list is not the one that was confirmed. Nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many checkpoints were deleted at their source, which were not, and how many stored copies were."""

    count: int
    kept: Sequence[Kept] = ()
    copies: int = 0


def fresh_plan(location: Location, rules: Rules) -> PrunePlan:
    """What these rules would delete of a location as it is now. Raises PruneRefused."""
    import_location(location)
    location.refresh_from_db()
    if (blocker := prune_blocker(location)) is not None:
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
            kept = delete_entries(address_of(location), plan.entries) if plan.rows else []
    except LocationUnreadable as error:
        raise PruneRefused(error.message.code, **error.message.values) from None
    count = len(plan.rows) - len(kept)
    logger.info("pruned %d checkpoints of %s", count, location.path)
    import_location(location)
    copies = delete_copies(location, [*plan.rows, *plan.pruned]) if plan.deletes_copies else 0
    return Pruned(count, kept, copies)
