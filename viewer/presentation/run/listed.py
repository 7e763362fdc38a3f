"""The sentence on the page of a run with more checkpoints than are listed."""

from django.db.models import Q, Sum
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.models import Run


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
    return [words % {"count": number_format(most, use_l10n=True, force_grouping=True)}]
