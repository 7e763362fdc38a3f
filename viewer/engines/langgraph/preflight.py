"""Labels for the preflight check of a graph. A graph has no components that may be lost."""

from viewer.engines.preflight import PreflightLabels
from viewer.messages.marking import gettext_noop as _

LABELS = PreflightLabels(
    of_unit=_("node %(position)d: %(text)s"),
    notes={
        "next": _("Next in the graph: %(detail)s"),
        "memory": _(
            "With this version of LangGraph, a fork runs subgraphs without what they remember: %(detail)s"
        ),
    },
)
