"""Sentences about the lineage problems of a run."""

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.formats.amounts import count_text
from viewer.lineage.tree import FaultCode
from viewer.models import Run

LABELS: dict[FaultCode, str | Promise] = {
    FaultCode.SELF_PARENT: _(
        "A checkpoint names itself as its parent: %(ids)s. It is shown without a parent."
    ),
    FaultCode.CYCLE: _(
        "The parents of these checkpoints form a cycle: %(ids)s. The earliest one is shown without a parent."
    ),
    FaultCode.DUPLICATE_ID: _("Several checkpoints have the same id: %(ids)s. Each is shown."),
}


def fault_texts(run: Run) -> list[str]:
    """Return a sentence for each problem."""
    return [
        str(LABELS[FaultCode(fault["code"])]) % {"ids": _named(fault["ids"], fault["count"])}
        for fault in run.lineage_faults
    ]


def _named(ids: list[str], count: int) -> str:
    named, more = ", ".join(ids), count - len(ids)
    return (
        gettext("%(ids)s and %(count)s more") % {"ids": named, "count": count_text(more)}
        if more > 0
        else named
    )
