"""Delete the stored copies of pruned checkpoints, and what was derived from them."""

import logging
from collections.abc import Sequence

from django.db import transaction

from viewer.data_folder.write_ahead_log import clear_log
from viewer.importing.import_lock import import_lock
from viewer.models import Checkpoint, Location, PreflightCheck, StoredCopy
from viewer.pruning.plan import states_without_source
from viewer.search.indexing.storing import remove_checkpoints

logger = logging.getLogger("forkline.pruning")

# Rows of one transaction: bounds the time that other writers wait.
BATCH = 200


def delete_copies(location: Location, rows: Sequence[Checkpoint]) -> int:
    """Delete the copies of these checkpoints, apart from those still at their source. Returns how many.

    Their rows stay, with their position in the lineage. If it is interrupted, the copies that are left are
    listed again.
    """
    deleted = 0
    with import_lock(location):
        for at in range(0, len(rows), BATCH):
            deleted += _delete_some(location, [row.pk for row in rows[at : at + BATCH]])
        remove_checkpoints(location.pk, [row.pk for row in rows])
        left = location.checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by()
        gone = location.runs.filter(checkpoints__state=Checkpoint.State.NO_COPY)
        # The inputs of a run were read from its copies.
        gone.exclude(pk__in=left.values("run")).update(inputs=[])
    # Deleted pages may still be in the log.
    clear_log()
    logger.info("deleted %d stored copies of %s", deleted, location.path)
    return deleted


def _delete_some(location: Location, keys: Sequence[int]) -> int:
    states = states_without_source(location)
    pruned = Checkpoint.objects.filter(pk__in=keys, location=location, state__in=states)
    with transaction.atomic():
        found = list(pruned.order_by().values_list("pk", flat=True))
        StoredCopy.objects.filter(pk__in=found).update(data=b"")
        PreflightCheck.objects.filter(checkpoint__in=found).delete()
        # Without a fingerprint, it is read again if it is back at its source.
        pruned.update(state=Checkpoint.State.NO_COPY, fingerprint="")
        location.runs.update(indexed_fingerprint="", listed_state="")
        Location.objects.filter(pk=location.pk).update(listed_fingerprint="")
        location.mark_changed()
    return len(found)
