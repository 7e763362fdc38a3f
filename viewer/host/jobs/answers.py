"""Answers the requests of ``viewer.host_requests`` about code, preflight checks, jobs and pruning."""

from collections.abc import Callable
from contextlib import suppress
from functools import singledispatch
from pathlib import Path
from typing import Any

from viewer import host_requests as asked
from viewer.data_folder import locks
from viewer.engines import engine_named
from viewer.host.confined import confined
from viewer.host.jobs import checkout, code, events, preflight, prewarm, retention, savers, thread_pruning
from viewer.host.jobs.environment import conflict_of, runnable
from viewer.host.jobs.events import redactor_of
from viewer.host.jobs.kept_keys import keepable_keys
from viewer.host.jobs.sandbox import folders_to_read, folders_to_write, isolation_for
from viewer.host.locations import pruning
from viewer.host.locations.importing import redact_stored
from viewer.host.project_secrets import redact_jobs_again
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location, PreflightCheck, Project, Question, RecordedCode
from viewer.records.locations import deletes_threads
from viewer.stores.protocol import LocationUnreadable


@singledispatch
def answer_about_jobs(request: Any) -> Any:
    """Return the reply to a request that needs the modules of jobs. Raises HostRefusal."""
    raise TypeError(f"{type(request).__name__} is no request to a host")


@answer_about_jobs.register
def _(request: asked.CopyStore) -> bytes:
    return savers.store_to_send(_checkpoint(request.checkpoint))


@answer_about_jobs.register
def _(request: asked.CheckProject) -> None:
    isolation_for(runnable(_project(request.project)))


@answer_about_jobs.register
def _(request: asked.CheckImports) -> UserMessage | None:
    return conflict_of(
        Project(
            folder=request.folder,
            interpreter=request.interpreter,
            environment_file=request.environment_file,
            entry_points=request.entry_points,
        )
    )


@answer_about_jobs.register
def _(request: asked.ListKeepableKeys) -> list[asked.KeepableKey]:
    return keepable_keys(Project.objects.get(pk=request.project))


@answer_about_jobs.register
def _(request: asked.ListOpenFolders) -> asked.OpenFolders:
    project = Project.objects.get(pk=request.project)
    read, write = folders_to_read(project, request.read), folders_to_write(project, request.write)
    return asked.OpenFolders(sorted({*read} - {*write}), sorted(write))


@answer_about_jobs.register
def _(request: asked.HideProjectSecrets) -> None:
    project = Project.objects.get(pk=request.project)
    redact_jobs_again(project)
    for location in project.locations.all():
        # If its copies cannot be read now, its next import redacts them. The others are redacted.
        with suppress(LocationUnreadable):
            redact_stored(location)


@answer_about_jobs.register
def _(request: asked.Redact) -> list[Any]:
    redact: Callable[[Any], Any] = redactor_of(_project(request.project))
    return [redact(value) for value in request.values]


def _checkpoint(key: int) -> Checkpoint:
    return Checkpoint.objects.select_related("location__project", "run").get(pk=key)


def _project(key: int | None) -> Project | None:
    return None if key is None else Project.objects.get(pk=key)


@answer_about_jobs.register
def _(request: asked.ReadSizes) -> list[asked.StoredKind]:
    return list(retention.sizes())


@answer_about_jobs.register
def _(request: asked.ListDrafts) -> list[asked.DraftFile]:
    return retention.draft_files()


@answer_about_jobs.register
def _(request: asked.CheckCheckpoint) -> asked.CheckReply:
    return _reply(
        preflight.preflight_checkpoint(
            _checkpoint(request.checkpoint),
            Project.objects.get(pk=request.project),
            request.entry_point,
            request.commit,
            again=request.again,
            only_stored=request.only_stored,
        )
    )


@answer_about_jobs.register
def _(request: asked.CheckNewRun) -> asked.CheckReply:
    return _reply(
        preflight.preflight_new_run(
            Project.objects.get(pk=request.project),
            request.entry_point,
            request.entity,
            request.store_kind,
            again=request.again,
            only_stored=request.only_stored,
        )
    )


def _reply(check: PreflightCheck) -> asked.CheckReply:
    return asked.CheckReply("" if check._state.adding else str(check.pk), check.fingerprint)


@answer_about_jobs.register
def _(request: asked.ListNextUnits) -> list[dict[str, Any]]:
    checkpoint, project = _checkpoint(request.checkpoint), Project.objects.get(pk=request.project)
    return preflight.ask_next_units(checkpoint, project, request.entry_point, request.edits, request.commit)


@answer_about_jobs.register
def _(request: asked.ListNewEffects) -> list[dict[str, Any]]:
    checkpoint, project = _checkpoint(request.checkpoint), Project.objects.get(pk=request.project)
    return preflight.unaccepted_effects(checkpoint, project, request.entry_point, request.commit)


@answer_about_jobs.register
def _(request: asked.ReadSource) -> Any:
    if request.commit:
        return code.source_at(request)
    engine, folder = engine_named(request.engine), Path(request.folder)
    return confined(folder, lambda: engine.read_source(folder, request.entry_point, request.kind))


@answer_about_jobs.register
def _(request: asked.ListCodeChanges) -> asked.ChangedCode:
    recorded, project = RecordedCode.objects.get(pk=request.code), Project.objects.get(pk=request.project)
    has_commit = bool(recorded.commit) and checkout.has_commit(Path(project.folder), recorded.commit)
    return asked.ChangedCode(code.changes_since(recorded, project), has_commit)


@answer_about_jobs.register
def _(request: asked.CheckCommit) -> None:
    checkout.check_commit(Project.objects.get(pk=request.project), request.commit)


@answer_about_jobs.register
def _(request: asked.CompareCode) -> str:
    recorded = RecordedCode.objects.filter(pk__in=[request.code]).first()
    return code.difference_digest(recorded, Project.objects.get(pk=request.project))


@answer_about_jobs.register
def _(request: asked.ReadCodeDifference) -> asked.CodeDifference:
    recorded = RecordedCode.objects.get(pk=request.code)
    return code.difference(recorded, Project.objects.get(pk=request.project), request.name)


@answer_about_jobs.register
def _(request: asked.ReadWorkers) -> asked.Workers:
    return asked.Workers(is_up=locks.worker_is_up(), slots=locks.slots())


@answer_about_jobs.register
def _(request: asked.Prewarm) -> None:
    prewarm.request_prewarm(Project.objects.get(pk=request.project))


@answer_about_jobs.register
def _(request: asked.DeliverAnswer) -> None:
    events.deliver(Question.objects.select_related("job__location").get(pk=request.question))


@answer_about_jobs.register
def _(request: asked.ListPrunable) -> asked.PruneList:
    location = Location.objects.select_related("project").get(pk=request.location)
    if _deletes_threads(location):
        return thread_pruning.list_prunable(location, request.rules)
    plan = pruning.fresh_plan(location, request.rules)
    return asked.PruneList(
        rows=[row.source_key for row in plan.rows],
        pruned=[row.source_key for row in plan.pruned],
        protected={reason.value: count for reason, count in plan.protected.items()},
        size=plan.size,
        digest=plan.digest,
        deletes_copies=plan.deletes_copies,
    )


@answer_about_jobs.register
def _(request: asked.Prune) -> asked.Pruned:
    location = Location.objects.select_related("project").get(pk=request.location)
    if _deletes_threads(location):
        return thread_pruning.prune(location, request.rules, request.digest)
    return pruning.prune(location, request.rules, request.digest)


def _deletes_threads(location: Location) -> bool:
    return deletes_threads(location) and not pruning.is_gone(location)
