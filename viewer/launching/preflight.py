"""The preflight check that a page shows before a start, and the graph of the code that it reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewer.engines import engine_named, engine_of, engine_with
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import NO_SCHEMA, Schema
from viewer.engines.protocol import Contents
from viewer.host_requests import CheckCheckpoint, CheckNewRun, CheckReply, ask
from viewer.launching.new_run import NewRunPreview, entry_point_of_run
from viewer.launching.refusals import effects_digest
from viewer.launching.requests import CheckpointRequest
from viewer.messages.message import UserMessage, message_from
from viewer.models import Checkpoint, Location, PreflightCheck, Project, Run, accept_effects


def check_of_checkpoint(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    commit: str = "",
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a run from this checkpoint: a stored one that is up to date, or one that starts now.

    Does not wait for the check. With ``again``, a failed check is repeated. With ``only_stored``, no check is
    started, and an unsaved one is returned if there is none.
    """
    reply = ask(CheckCheckpoint(checkpoint.pk, project.pk, entry_point, again, only_stored, commit))
    return _check(reply, checkpoint=checkpoint, project=project, entry_point=entry_point, commit=commit)


def check_of_new_run(
    project: Project,
    entry_point: str,
    entity: str,
    store_kind: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a new run, as ``check_of_checkpoint`` returns it.

    ``entity`` is the name of a root kind; ``store_kind`` is the kind of the write target, json or sqlite.
    """
    reply = ask(CheckNewRun(project.pk, entry_point, entity, str(store_kind), again, only_stored))
    return _check(reply, project=project, entry_point=entry_point, entity=entity, store_kind=store_kind)


def _check(reply: CheckReply, **subject: Any) -> PreflightCheck:
    if reply.id:
        return PreflightCheck.objects.get(pk=reply.id)
    status = PreflightCheck.Status.UNCHECKED
    return PreflightCheck(**subject, fingerprint=reply.fingerprint, status=status)


def preflight_of(
    request: CheckpointRequest, *, may_start: bool, again: bool = False, accepted_effects: str = ""
) -> PreflightCheck | None:
    """The check of this request; None without a project.

    It starts only with ``may_start``, and is repeated after a failure only with ``again``.
    ``accepted_effects`` is the digest of the effects that the person accepts, which are stored.
    """
    checkpoint, project, entry_point = request.checkpoint, request.project, request.entry_point
    if project is None:
        return None
    commit = request.commit
    stored = check_of_checkpoint(checkpoint, project, entry_point, commit, only_stored=True)
    if not may_start:
        return stored
    if stored.new_effects and accepted_effects == effects_digest(stored):
        accept_effects(project, stored.new_effects, request.requested_by)
    return check_of_checkpoint(checkpoint, project, entry_point, commit, again=again)


def preflight_of_new_run(
    preview: NewRunPreview, *, may_start: bool, again: bool = False
) -> PreflightCheck | None:
    """The check of a new run; None if the run could not start in any case."""
    request, target = preview.request, preview.target
    if request.project is None or target is None or not preview.needs_preflight:
        return None
    return check_of_new_run(
        request.project,
        request.entry_point,
        request.kind.name,
        target.store_kind,
        again=again,
        only_stored=not may_start,
    )


def schema_at(
    checkpoint: Checkpoint, contents: Contents, project: Project | None, entry_point: str
) -> Schema:
    """What a run from this checkpoint is made of, from a stored preflight check, else from the record."""
    report = {}
    if project and entry_point:
        report = check_of_checkpoint(checkpoint, project, entry_point, only_stored=True).report
    return engine_of(contents).schema(contents, report)


def schema_of_new_run(kind: RootKind, project: Project, entry_point: str) -> Schema:
    """What a new run is made of, from a stored preflight check; empty without one."""
    if not entry_point:
        return NO_SCHEMA
    store_kind = Location.StoreKind.SQLITE
    stored = check_of_new_run(project, entry_point, kind.name, store_kind, only_stored=True)
    return engine_named(engine_with(kind)).schema(None, stored.report)


# The graph that a project's code defines, as reported by the preflight check of a new run.
#
# The check is the same for every checkpoint, so it is made once for each version of the project's source.


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
    check = check_of_new_run(
        project, entry_point, run.entity, run.location.store_kind, again=again, only_stored=not may_start
    )
    return CodeGraph(known, entry_point, check)


def _entry_point(project: Project, run: Run) -> str:
    found = entry_point_of_run(project, run)
    return found if found in project.entry_points else ""
