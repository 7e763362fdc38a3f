"""The preflight check that the browser shows before a start."""

from viewer.engines import engine_named, engine_of, engine_with
from viewer.engines.planning.schema import NO_SCHEMA, Schema
from viewer.engines.protocol import Contents
from viewer.engines.root_kinds import RootKind
from viewer.jobs.preflight.checks import preflight_checkpoint, preflight_new_run
from viewer.launching.new_run import NewRunPreview
from viewer.launching.preview.findings import effects_digest
from viewer.launching.requests.requests import CheckpointRequest
from viewer.models import Checkpoint, Location, PreflightCheck, Project, accept_effects


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
    stored = preflight_checkpoint(checkpoint, project, entry_point, only_stored=True)
    if not may_start:
        return stored
    if stored.new_effects and accepted_effects == effects_digest(stored):
        accept_effects(project, stored.new_effects, request.requested_by)
    return preflight_checkpoint(checkpoint, project, entry_point, again=again)


def preflight_of_new_run(
    preview: NewRunPreview, *, may_start: bool, again: bool = False
) -> PreflightCheck | None:
    """The check of a new run; None if the run could not start in any case."""
    request, target = preview.request, preview.target
    if request.project is None or target is None or not preview.needs_preflight:
        return None
    return preflight_new_run(
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
        report = preflight_checkpoint(checkpoint, project, entry_point, only_stored=True).report
    return engine_of(contents).schema(contents, report)


def schema_of_new_run(kind: RootKind, project: Project, entry_point: str) -> Schema:
    """What a new run is made of, from a stored preflight check; empty without one."""
    if not entry_point:
        return NO_SCHEMA
    store_kind = Location.StoreKind.SQLITE
    stored = preflight_new_run(project, entry_point, kind.name, store_kind, only_stored=True)
    return engine_named(engine_with(kind)).schema(None, stored.report)
