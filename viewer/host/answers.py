"""Answers the requests of ``viewer.host_requests`` on the machine of this process."""

import os
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeVar, cast

from django.conf import settings

from viewer import host_requests as asked
from viewer.data_folder import locks
from viewer.engines import engine_named
from viewer.host.confined import confined
from viewer.host.locations import adding, finding, pruning
from viewer.host.locations.adding import open_write_target, write_target_at, write_target_of
from viewer.host.locations.completing import describe_runs, find_ends, locations_to_describe
from viewer.host.locations.importing import import_added, import_location, prepare_import
from viewer.host.locations.indexing import import_run
from viewer.host.locations.search_index import index_some
from viewer.host.locations.sources import ImportCounter, ImportSummary, read_bodies, read_body, reveal
from viewer.host.permitted import permit
from viewer.host.project_secrets import stored_key
from viewer.host.projects import (
    INTERPRETERS,
    PROJECT_FILES,
    check_paths,
    engine_version,
    find_environment_file,
    find_interpreter,
    propose_project,
    python_version,
)
from viewer.models import Checkpoint, Location, Project, Run

Reply = TypeVar("Reply")


def answer(request: asked.Request[Reply], report: asked.Report | None = None) -> Reply:
    """Return the reply to a request. Raises HostRefusal. ``report`` receives the progress of an import."""
    if isinstance(request, asked.ImportLocation) and report is not None:
        location, counter = _location(request.location), ImportCounter(report)
        return cast(Reply, _result(import_location(location, counts=counter)))
    return cast(Reply, _answer(request))


@singledispatch
def _answer(request: Any) -> Any:
    # Commands that only list checkpoints start sooner without the modules of jobs.
    from viewer.host.jobs.answers import answer_about_jobs

    return answer_about_jobs(request)


# Checkpoints


@_answer.register
def _(request: asked.ReadBody) -> bytes:
    return read_body(Checkpoint.objects.select_related("location__project").get(pk=request.checkpoint))


@_answer.register
def _(request: asked.RevealValue) -> str:
    row = Checkpoint.objects.select_related("location__project").get(pk=request.checkpoint)
    return reveal(row, request.pointer)


@_answer.register
def _(request: asked.ReadBodies) -> list[asked.Body]:
    return read_bodies(_location(request.location), request.checkpoints)


# Locations


@_answer.register
def _(request: asked.FindStores) -> list[asked.FoundStore]:
    return finding.find_stores(settings.CHECKPOINT_ROOTS)


@_answer.register
def _(request: asked.CompletePath) -> list[str]:
    return finding.paths_like(request.typed, settings.CHECKPOINT_ROOTS)


@_answer.register
def _(request: asked.ListDatabases) -> list[str]:
    return adding.addable_databases()


@_answer.register
def _(request: asked.OpenLocation) -> int:
    roots = None if request.anywhere else settings.CHECKPOINT_ROOTS
    location = adding.open_location(request.path, roots)
    if request.anywhere and location.is_local:
        permit(location.path)
    return location.pk


@_answer.register
def _(request: asked.PermitPaths) -> None:
    permit(*request.paths)


@_answer.register
def _(request: asked.ListOverlaps) -> list[str]:
    return list(adding.overlaps(_location(request.location)))


@_answer.register
def _(request: asked.ChangePath) -> None:
    adding.change_path(_location(request.location), request.path, settings.CHECKPOINT_ROOTS)


@_answer.register
def _(request: asked.ImportLocation) -> asked.ImportResult:
    location = _location(request.location)
    return _result(import_added(location) if request.newest_first else import_location(location))


@_answer.register
def _(request: asked.ImportRun) -> asked.ImportResult:
    run = Run.objects.select_related("location__project").get(pk=request.run)
    if run.location.read_error and locks.worker_is_up():
        # The worker tries again every few seconds. A page does not wait for a disk or server that is away.
        return asked.ImportResult(read_error=run.location.read_error)
    return _result(import_run(run, newest_first=request.newest_first))


@_answer.register
def _(request: asked.StoredKey) -> str:
    return stored_key(_location(request.location), request.key)


@_answer.register
def _(request: asked.RemoveLocation) -> None:
    adding.remove_location(_location(request.location))


@_answer.register
def _(request: asked.FindEnds) -> None:
    find_ends(_location(request.location))


@_answer.register
def _(request: asked.IndexNow) -> None:
    index_some(request.seconds)
    for location in locations_to_describe() if request.costs else ():
        describe_runs(location)


@_answer.register
def _(request: asked.IsLocationGone) -> bool:
    return pruning.is_gone(_location(request.location))


@_answer.register
def _(request: asked.PrepareImport) -> None:
    prepare_import()


def _location(key: int) -> Location:
    return Location.objects.select_related("project").get(pk=key)


def _result(summary: ImportSummary) -> asked.ImportResult:
    names = asked.ImportResult.__struct_fields__
    return asked.ImportResult(**{name: getattr(summary, name) for name in names})


# Projects


@_answer.register
def _(request: asked.ProposeProject) -> asked.ProposedProject:
    path = Path(request.location_path)
    found = confined(path, lambda: propose_project(path, request.engine))
    return asked.ProposedProject(
        folder=str(found.folder),
        interpreter=str(found.interpreter or ""),
        environment_file=str(found.environment_file or ""),
        entry_points=list(found.entry_points),
        is_found=found.is_found,
        looked_for=list(PROJECT_FILES),
        looked_for_interpreters=list(INTERPRETERS[:2]),
    )


@_answer.register
def _(request: asked.ReadInterpreter) -> asked.InterpreterFacts:
    interpreter = Path(request.interpreter)
    try:
        environment = Path(os.path.realpath(interpreter.parent))
        return asked.InterpreterFacts(
            python_version=python_version(interpreter),
            engine_version=engine_version(interpreter, request.engine),
            link_target=os.path.realpath(interpreter) if interpreter.is_symlink() else "",
            is_outside=not any(environment.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS),
        )
    except (OSError, ValueError):
        # Somebody typed a name that no file can have.
        return asked.InterpreterFacts("", "", "", is_outside=True)


@_answer.register
def _(request: asked.FindProjectFiles) -> asked.ProjectFiles:
    folder = Path(request.folder)
    interpreter, file = confined(
        folder, lambda: (find_interpreter(folder), find_environment_file(folder, request.engine))
    )
    return asked.ProjectFiles(str(interpreter or ""), str(file or ""))


@_answer.register
def _(request: asked.CheckProjectPaths) -> asked.ProjectPaths:
    return check_paths(request)


@_answer.register
def _(request: asked.FindEntryPoints) -> list[Any]:
    engine, folder = engine_named(request.engine), Path(request.folder)
    return list(confined(folder, lambda: engine.find_entry_points(folder)))


@_answer.register
def _(request: asked.MatchEntryPoint) -> str:
    engine, folder = engine_named(request.engine), Path(request.folder)
    return confined(
        folder, lambda: engine.entry_point_for(folder, request.entry_points, request.kind, request.name)
    )


@_answer.register
def _(request: asked.ListNamedEntryPoints) -> dict[str, str]:
    engine, folder = engine_named(request.engine), Path(request.folder)
    return dict(confined(folder, lambda: engine.named_entry_points(folder)))


@_answer.register
def _(request: asked.ListEntryPointKinds) -> dict[str, str]:
    engine, folder = engine_named(request.engine), Path(request.folder)
    return dict(confined(folder, lambda: engine.entry_point_kinds(folder, request.entry_points)))


@_answer.register
def _(request: asked.ListInputNames) -> list[Any]:
    engine, folder = engine_named(request.engine), Path(request.folder)
    return list(confined(folder, lambda: engine.input_names(folder, request.entry_point, request.kind)))


@_answer.register
def _(request: asked.ListCheckpointEvents) -> list[Any]:
    interpreter = Path(request.interpreter) if request.interpreter else None
    return list(engine_named(request.engine).checkpoint_events(interpreter))


@_answer.register
def _(request: asked.FindWriteTarget) -> asked.WriteTarget:
    roots = None if request.anywhere else settings.CHECKPOINT_ROOTS
    return write_target_at(request.path, Project.objects.get(pk=request.project), roots)


@_answer.register
def _(request: asked.CheckWriteTarget) -> asked.WriteTarget:
    return write_target_of(_location(request.location), Project.objects.get(pk=request.project))


@_answer.register
def _(request: asked.OpenWriteTarget) -> int:
    project = Project.objects.get(pk=request.project)
    location = open_write_target(request.target, project, request.engine)
    if location.is_local:
        # Another machine has named an allowed folder, or was refused.
        permit(location.path)
    return location.pk
