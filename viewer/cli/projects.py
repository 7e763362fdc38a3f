"""The project of a run, from the arguments of a command. Starting a run in a project confirms it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.cli.output import FILE, FOLDER, PROGRAM
from viewer.engines import engine_of, kinds_that
from viewer.engines.protocol import Contents, Engine
from viewer.host_requests import (
    FindEntryPoints,
    FindProjectFiles,
    ListEntryPointKinds,
    ListNamedEntryPoints,
    MatchEntryPoint,
    PermitPaths,
    ProposeProject,
    ask,
)
from viewer.models import Location, Project
from viewer.records.audit import Action, Audited, is_at_terminal, record
from viewer.records.hosts import is_here
from viewer.validation import CODE_NAME, NAME, is_storable

KINDS = tuple(dict.fromkeys(kind.name for kind in kinds_that(lambda kind: kind.starts_new_runs)))


def add_project_arguments(parser: CommandParser) -> None:
    """Add the options of a project and of its entry point. Defaults are found near the location."""
    parser.add_argument("--project", type=FOLDER, metavar="DIR", help=_("The project's folder."))
    parser.add_argument("--python", type=PROGRAM, metavar="PATH", help=_("The project's interpreter."))
    parser.add_argument(
        "--env-file", type=FILE, metavar="FILE", help=_("The project's environment file, with its keys.")
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--entrypoint", type=CODE_NAME, metavar="module:Class", help=_("The entry point of the run.")
    )
    chosen.add_argument(
        "--graph",
        type=NAME,
        metavar="NAME",
        help=_("The entry point by its name in the project's configuration."),
    )
    parser.add_argument(
        "--kind", choices=KINDS, help=_("The kind of the entry point, if its source does not say.")
    )


# Options that name no project.
UNNAMED: Mapping[str, None] = dict.fromkeys(("project", "python", "env_file"))


def project_for(location: Location, options: Mapping[str, Any] = UNNAMED) -> Project:
    """The named project, else the location's, else the one that contains it. Raises CommandError.

    The location may be an unsaved row.
    """
    if not is_at_terminal():
        return _confirmed_project(location)
    if location.pk and not is_here(location.host_id):
        return _project_elsewhere(location, options)
    if location.project and not _named(options):
        if not location.project.is_confirmed:
            _confirm(location.project)
        return location.project
    project, is_new = Project.objects.here().get_or_create(
        **_values(location, options), defaults={"confirmed_at": timezone.now()}
    )
    _permit(project, location.project, options)
    if is_new or not project.is_confirmed:
        _confirm(project)
    if not project.entry_points:
        project.entry_points = [
            point.name for point in ask(FindEntryPoints(engine_of(location).name, project.folder))
        ]
        project.save(update_fields=["entry_points"])
    if location.project is None:
        location.project = project
        if location.pk:
            location.save(update_fields=["project"])
            location.ask_source_again()
    return project


def _permit(project: Project, former: Project | None, options: Mapping[str, Any]) -> None:
    """Let this machine open the paths of a project that a command has named, or found next to the location.

    Not those that only the row of its former project has, which another machine may have written.
    """
    in_rows = {former.folder, former.interpreter, former.environment_file} if former else set()
    named = {str(_absolute(options[name])) for name in UNNAMED if options[name]}
    paths = [project.folder, project.interpreter, project.environment_file]
    ask(PermitPaths([path for path in paths if path in named or path not in in_rows]))


@transaction.atomic
def _confirm(project: Project) -> None:
    project.confirm(None)
    record(Action.CHANGED, Audited.PROJECT, project.pk, project.folder)


def _project_elsewhere(location: Location, options: Mapping[str, Any]) -> Project:
    """The project of a location on another host, for which a person has confirmed it. Raises CommandError."""
    project = location.project
    if project is None or not project.is_confirmed or _named(options):
        message = _("The project of %(location)s is on %(host)s. Configure it on its page, or on that host.")
        raise CommandError(message % {"location": location.path, "host": location.host})
    return project


def _confirmed_project(location: Location) -> Project:
    """The project that a person has confirmed for the location. Raises CommandError for none."""
    if location.project is None or not location.project.is_confirmed:
        message = _("Configure the project of %(location)s on its page first.")
        raise CommandError(message % {"location": location.path})
    return location.project


def named_entry_point(
    engine: Engine[Any], folder: Path, options: Mapping[str, Any], host: int | None = None
) -> str | None:
    """The entry point that ``--entrypoint`` or ``--graph`` names. Raises CommandError for an unknown name."""
    if options["graph"] is None:
        return None if options["entrypoint"] is None else str(options["entrypoint"])
    found = ask(ListNamedEntryPoints(engine.name, str(folder)), host=host)
    if options["graph"] not in found:
        message = _("The project in %(folder)s has no graph %(name)s. Its graphs: %(names)s")
        values = {"folder": folder, "name": options["graph"], "names": ", ".join(found) or "-"}
        raise CommandError(message % values)
    return found[options["graph"]]


def source_of(location: Location, contents: Contents, options: Mapping[str, Any]) -> tuple[Path, str]:
    """The folder and the entry point of a run from a checkpoint. Stores nothing, unlike ``project_for``.

    The entry point is the named one, else the project's only one for this checkpoint; empty if unclear.
    Raises CommandError if ``--kind`` is not the checkpoint's or ``--graph`` is unknown.
    """
    engine, kind = engine_of(contents), options["kind"]
    if kind and kind != contents.kind:
        message = _("This is a checkpoint of a %(found)s: it does not match --kind %(kind)s.")
        raise CommandError(message % {"found": contents.kind, "kind": kind})
    folder, points = _folder_and_entry_points(location, options)
    host = location.host_id
    named = named_entry_point(engine, folder, options, host)
    if named is not None:
        return folder, named
    points = points or [point.name for point in ask(FindEntryPoints(engine.name, str(folder)), host=host)]
    found = ask(MatchEntryPoint(engine.name, str(folder), points, contents.kind, contents.name), host=host)
    if not found and kind:
        kinds = ask(ListEntryPointKinds(engine.name, str(folder), points), host=host)
        unknown = [name for name, one in kinds.items() if not one]
        found = unknown[0] if len(unknown) == 1 else ""
    return folder, found


def _folder_and_entry_points(location: Location, options: Mapping[str, Any]) -> tuple[Path, list[str]]:
    """Those of the project that ``project_for`` would return; no entry points if it is not stored."""
    own = location.project
    if not is_at_terminal():
        own = _confirmed_project(location)
    elif location.pk and not is_here(location.host_id):
        own = _project_elsewhere(location, options)
    if own and not _named(options):
        return Path(own.folder), own.entry_points
    try:
        values = _values(location, options)
    except CommandError:
        # Reported by ``project_for``. A plan needs no interpreter.
        proposed = own.folder if own else ask(ProposeProject(location.path, location.engine)).folder
        return _absolute(options["project"]) or Path(proposed), []
    stored = Project.objects.here().filter(**values).first()
    return Path(values["folder"]), stored.entry_points if stored else []


def _named(options: Mapping[str, Any]) -> bool:
    """Whether an option names a project or a part of it."""
    return any(options[name] for name in UNNAMED)


def _values(location: Location, options: Mapping[str, Any]) -> dict[str, str]:
    own = location.project
    proposed = ask(ProposeProject(location.path, location.engine))
    folder = _absolute(options["project"]) or Path(own.folder if own else proposed.folder)
    if not folder.is_dir():
        raise CommandError(_("There is no folder %s: name the project's with --project.") % folder)
    is_same = str(folder) == (own.folder if own else proposed.folder)
    python = _absolute(options["python"])
    if python is None and is_same:
        python = Path(own.interpreter) if own else _path(proposed.interpreter)
    files = ask(FindProjectFiles(str(folder), location.engine))
    python = python or _path(files.interpreter)
    if python is None:
        raise CommandError(
            _(
                "No interpreter was found for %s: name the project's folder with --project, or the "
                "interpreter with --python."
            )
            % folder
        )
    file = _absolute(options["env_file"])
    if file is None and own and is_same:
        file = Path(own.environment_file) if own.environment_file else None
    elif file is None:
        file = _path(files.environment_file)
    return {"folder": str(folder), "interpreter": str(python), "environment_file": str(file or "")}


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _absolute(text: str | None) -> Path | None:
    """The path that an option names, if any. Raises CommandError for one that cannot be stored."""
    if not text:
        return None
    # Links are not followed, as an environment's interpreter is a link.
    path = Path(text).expanduser().absolute()
    if not is_storable(path):
        raise CommandError(f"{path}: {_('This path cannot be opened.')}")
    return path
