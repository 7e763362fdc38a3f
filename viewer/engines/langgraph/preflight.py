"""Labels for the preflight check of a graph. A graph has no components that may be lost."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.preflight import Component, PreflightLabels
from viewer.messages.marking import gettext_noop as _

LABELS = PreflightLabels(
    of_unit=_("node %(position)d: %(text)s"), notes={"next": _("Next in the graph: %(detail)s")}
)


def components_in(_report: Mapping[str, Any]) -> list[Component]:
    """Returns no components: the project's code makes the graph."""
    return []


def unmatched(_report: Mapping[str, Any], _answers: Mapping[str, str]) -> list[Component]:
    """Returns no components: none are stored that could be matched."""
    return []
