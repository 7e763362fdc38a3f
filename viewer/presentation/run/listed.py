"""The sentences on the page of a run with more checkpoints than are listed or copied."""

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.db.models.functions import Length
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.formats.amounts import count_text
from viewer.models import Checkpoint, Run, StoredCopy


def listing_texts(run: Run) -> list[str]:
    """A sentence if only the newest checkpoints of the run are listed, else nothing."""
    most = kind_of(engine_of(run.location), run.entity).max_listed
    if not most:
        return []
    top = run.parent or run
    listed = Run.objects.filter(Q(pk=top.pk) | Q(parent=top)).aggregate(count=Sum("checkpoint_count"))
    if (listed["count"] or 0) < most:
        return []
    words = _("Only the newest %(count)s checkpoints of this run, called runs included, are listed.")
    return [words % {"count": count_text(most)}]


def copy_texts(run: Run) -> list[str]:
    """A sentence if the limit of stored copies is reached before all checkpoints have one, else nothing."""
    top = run.parent or run
    if not top.copies_digest:
        return []
    rows = Checkpoint.objects.filter(Q(run=top) | Q(run__parent=top))
    rows = rows.exclude(source_key__startswith=Checkpoint.SCRATCH).order_by()
    copies = StoredCopy.objects.filter(checkpoint__in=rows).exclude(data=b"")
    found, count = copies.aggregate(count=Count("pk"), size=Sum(Length("data"))), rows.count()
    is_full = found["count"] >= settings.COPIES_MAX_CHECKPOINTS
    is_full |= (found["size"] or 0) >= settings.COPIES_MAX_BYTES
    if not is_full or found["count"] >= count:
        return []
    words = _(
        "%(copied)s of %(count)s checkpoints of this run, called runs included, have a stored copy. No more "
        "are made, because the limit is reached."
    )
    return [words % {"copied": count_text(found["count"]), "count": count_text(count)}]
