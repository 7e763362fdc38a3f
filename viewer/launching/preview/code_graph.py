"""The graph that a project's code defines, as reported by the preflight check of a new run.

The check is the same for every checkpoint, so it is made once for each version of the project's source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewer.jobs.preflight.checks import preflight_new_run
from viewer.launching.preview.earlier_runs import entry_point_of_run
from viewer.messages.message import UserMessage, message_from
from viewer.models import PreflightCheck, Project, Run


@dataclass(frozen=True, slots=True)
class CodeGraph:
    """The entry points of a run's project, the one that is drawn, and the check that reports its graph.

    ``check`` is None if no entry point is known.
    """

    entry_points: tuple[str, ...]
    entry_point: str
    check: PreflightCheck | None

    @property
    def is_unchecked(self) -> bool:
        return self.check is not None and self.check.status == PreflightCheck.Status.UNCHECKED

    @property
    def is_under_way(self) -> bool:
        return self.check is not None and not self.check.has_ended and not self.is_unchecked

    @property
    def graph(self) -> Mapping[str, Any]:
        """The nodes and edges; empty if they are not known."""
        return dict(self.check.report.get("graph") or {}) if self.check else {}

    @property
    def error(self) -> UserMessage | None:
        """Why the graph is not known; None if it is, or if no check has run."""
        if self.check is None or not self.check.has_ended or self.graph:
            return None
        if blocks := self.check.report.get("blocks"):
            return message_from(blocks[0])
        return self.check.error or UserMessage("drawing.code_has_no_graph")


def code_graph_of(run: Run, wanted: str, *, may_start: bool = False, again: bool = False) -> CodeGraph | None:
    """The graph of the run's project; None without a confirmed project.

    ``wanted`` is one of its entry points, or empty for that of the run. A check starts only with
    ``may_start``, and a failed one is repeated only with ``again``.
    """
    project = run.location.project
    if project is None or not project.is_confirmed:
        return None
    known = tuple(project.entry_points)
    entry_point = wanted if wanted in known else _entry_point(project, run.outermost)
    if not entry_point:
        return CodeGraph(known, "", None)
    check = preflight_new_run(
        project, entry_point, run.entity, run.location.store_kind, again=again, only_stored=not may_start
    )
    return CodeGraph(known, entry_point, check)


def _entry_point(project: Project, run: Run) -> str:
    found = entry_point_of_run(project, run)
    return found if found in project.entry_points else ""
