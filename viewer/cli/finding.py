"""Finds what an argument names: a location, ``LOCATION#ID``, a checkpoint's file, or the project of a run."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer import host_requests
from viewer.cli import CHECKPOINT, FILE, FOLDER, PROGRAM, warn
from viewer.engines import engine_of, kinds_that
from viewer.engines.protocol import Contents, Engine
from viewer.formats import count_text
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
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Collection, Host, Location, Project, Run
from viewer.records.audit import Action, Audited, is_at_terminal, opens_row, record
from viewer.records.hosts import is_here
from viewer.records.locations import NotLocal, is_indexed, location_named, path_of
from viewer.stores import name_in, shown_path
from viewer.stores.protocol import ReadLimits
from viewer.validation import CODE_NAME, NAME, content_at, is_storable, one_line, shortened

# Digits of the key of a row, and the # that the path of a location may have.
MAX_KEY_DIGITS, MAX_MARKS = 18, 20
# Seconds between two reports of an import.
REPORT_SECONDS = 2.0


def imported_location(path: str | Path) -> Location:
    """The location at a path, after an import. Raises CommandError if it cannot be read.

    Only a person at a terminal adds one by that. A program gets what a worker has imported, as pages do: it
    waits for no disk, and not for a long import.
    """
    if is_at_terminal():
        location, summary = imported(path)
        read_error = summary.read_error
        if is_indexed(location) and not read_error:
            # The first import lists only the newest runs.
            read_error = ask(host_requests.ImportLocation(location.pk)).read_error
        location.refresh_from_db()
    else:
        location = known_location(str(path))
        read_error = location.read_error
    if read_error:
        # What was imported before is still shown. The JSON document has no field for the error.
        text = _("%(location)s is shown as last imported. Error: %(reason)s")
        warn(text % {"location": location.path, "reason": translate(read_error)})
    return location


def known_location(text: str) -> Location:
    """The location with this key or path, or HOST:PATH, that a program sees. Raises CommandError."""
    found = None
    with suppress(ValueError):
        found = Location.objects.filter(uid=UUID(text)).first()
    try:
        found = found or location_named(text)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    opens_row(Audited.LOCATION, found.uid)
    return found


def imported(path: str | Path, *, permits_code: bool = False) -> tuple[Location, host_requests.ImportResult]:
    """The location at a path, and the result of its import. Reports on stderr what takes long.

    Raises CommandError if it cannot be opened, or if nothing of it was ever read. A new location is then not
    added, nor if the command is ended before anything is stored. With ``permits_code``, the project of a
    saver is confirmed.
    """
    try:
        with ended_by_sigterm(), reported(path) as report, newly_opened(path) as location:
            if permits_code and location.store_kind == Location.StoreKind.SAVER:
                project_for(location)
            summary = ask(host_requests.ImportLocation(location.pk), report)
            location.refresh_from_db()
            if summary.read_error and not location.checkpoints.exists():
                raise CommandError(f"{location.path}: {translate(summary.read_error)}")
            return location, summary
    except host_requests.UnknownLocation as error:
        raise CommandError(f"{shown_path(path)}: {error}") from None


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise SystemExit at SIGTERM, so that what was begun is cleaned up."""
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def newly_opened(path: str | Path) -> Iterator[Location]:
    """Yield the location at this path, added if it is new.

    If it is new, and the block fails or is interrupted before anything of it is stored, it is removed again:
    it would be imported again and again, and no project below it could run.
    """
    if other := location_elsewhere(str(path)):
        yield other
        return
    known = set(Location.objects.values_list("pk", flat=True))
    location = Location.objects.get(pk=ask(host_requests.OpenLocation(str(path), anywhere=True)))
    try:
        yield location
    except BaseException:
        if location.pk not in known and not (location.checkpoints.exists() or location.runs.exists()):
            with suppress(DatabaseError):
                location.delete()
        raise


def location_elsewhere(text: str) -> Location | None:
    """The location that ``HOST:PATH`` names on another host; None if the text begins with no host's name.

    Only a known one: its host alone adds others. Raises CommandError.
    """
    name, _colon, path = text.partition(":")
    host = Host.objects.filter(name=name).first() if path.startswith("/") else None
    if host is None or is_here(host.pk):
        return None
    location = Location.objects.select_related("project", "host").filter(host=host, path=path).first()
    if location is None:
        message = _("%(host)s has no location %(path)s. Add it on the page “Locations”, or on that host.")
        raise CommandError(message % {"host": name, "path": path})
    return location


def listed_location(text: str) -> Location:
    """The location that the argument names, which is read nowhere. Raises CommandError for an unknown one."""
    path = text if name_in(text) else str(typed_path(text).expanduser().resolve())
    location = location_elsewhere(text) or Location.objects.here().filter(path=path).first()
    if location is None:
        raise CommandError(_("%s is not a location.") % one_line(text))
    return location


@contextmanager
def reported(path: str | Path) -> Iterator[Callable[[host_requests.ImportCounts], None]]:
    """Yield a function that receives how far an import is. If it takes longer, print that on stderr."""
    has_ended, newest = Event(), [host_requests.ImportCounts()]

    def receive(counts: host_requests.ImportCounts) -> None:
        newest[0] = counts

    def report() -> None:
        while not has_ended.wait(REPORT_SECONDS):
            words, counts = _("Reading %(location)s …"), newest[0]
            if counts.found:
                words = ngettext(
                    "%(location)s: %(found)s file found …",
                    "%(location)s: %(found)s files found …",
                    counts.found,
                )
            if counts.due:
                words = _("%(location)s: new or changed files read: %(read)s of %(due)s …")
            numbers = {name: count_text(getattr(counts, name)) for name in ("found", "due", "read")}
            sys.stderr.write(one_line(words % {"location": shown_path(path), **numbers}) + "\n")
            sys.stderr.flush()

    reporter = Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        yield receive
    finally:
        has_ended.set()
        reporter.join()


def add_checkpoint_argument(
    parser: CommandParser, help_text: str = "", name: str = "checkpoint", nargs: str | None = None
) -> None:
    """Add the argument that ``checkpoint_at`` reads."""
    help_text = help_text or _("A checkpoint of a location, or a checkpoint's file.")
    parser.add_argument(name, nargs=nargs, type=CHECKPOINT, metavar="LOCATION#ID", help=help_text)


def checkpoint_at(target: str | Checkpoint) -> Checkpoint:
    """The row that a target names, after importing its location. Raises CommandError."""
    if isinstance(target, Checkpoint):
        return target
    path, identifier = split_target(target)
    if not is_at_terminal():
        if target.isascii() and target.isdigit():
            row = _by_key(target)
        elif path and identifier:
            row = _by_id(imported_location(path), identifier)
        else:
            raise CommandError(_("Name a checkpoint as LOCATION#ID, or by its key."))
        opens_row(Audited.CHECKPOINT, row.pk)
        return row
    if path and identifier and not _is_file(Path(target)):
        return _by_id(imported_location(path), identifier)
    file = typed_path(target).absolute()
    if not _is_file(file):
        raise CommandError(
            _("Name a checkpoint as LOCATION#ID, or by its file. This is neither: %s") % shown_path(target)
        )
    return _by_file(file.resolve())


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A name that is too long, or a folder that may not be searched.
        return False


def split_target(target: str) -> tuple[str, str]:
    """The location and the rest of ``LOCATION#REST``; empty texts without a ``#``.

    Both may hold a ``#``: the location is the longest part that is known or exists.
    """
    marks = [position for position, character in enumerate(target) if character == "#"]
    # Each is looked up.
    for position in reversed(marks[:MAX_MARKS]):
        if may_be_location(target[:position]):
            return target[:position], target[position + 1 :]
    path, _mark, rest = target.rpartition("#")
    return path, rest if path else ""


def may_be_location(path: str) -> bool:
    """Whether a location is known at this path, or at a terminal, whether something is there."""
    if not is_at_terminal():
        with suppress(CommandError):
            return bool(known_location(path))
        return False
    name, _colon, rest = path.partition(":")
    on_host = Location.objects.filter(host__name=name, path=rest)
    if on_host.exists() or Location.objects.here().filter(path=path).exists():
        return True
    try:
        return typed_path(path).exists()
    except (OSError, ValueError):
        return False


def typed_path(text: str) -> Path:
    """The path of a typed path or file:// URL. Raises CommandError for a URL of another machine."""
    try:
        return path_of(text)
    except NotLocal as error:
        raise CommandError(str(error)) from None


def opened_run(location: Location, key: str) -> Run:
    """The run with this key, escaped or not, with its checkpoints. Raises CommandError."""
    runs = location.runs.select_related("location__project", "parent")
    run = runs.filter(key=unquote(key)).first() or runs.filter(key=key).first()
    if run is None:
        raise CommandError(_("%(location)s has no run %(id)s.") % {"location": location.path, "id": key})
    summary = ask(host_requests.ImportRun(run.pk))
    if summary.read_error:
        warn(translate(summary.read_error))
    run.refresh_from_db()
    return run


def existing_collection(name: str) -> Collection:
    """The collection of this name. Raises CommandError."""
    found = Collection.objects.filter(name=" ".join(name.split())).first()
    if found is None:
        raise CommandError(_("There is no collection %s.") % name)
    return found


def with_called_runs(run: Run) -> list[Run]:
    """A run, followed by the runs that it called, directly or not."""
    return [run, *(inner for called in run.called_runs.order_by("pk") for inner in with_called_runs(called))]


def _by_key(text: str) -> Checkpoint:
    """The checkpoint with this key that a program sees. Raises CommandError."""
    rows = Checkpoint.objects.select_related("location__project", "run", "stored_copy")
    found = rows.filter(pk=int(text)).first() if len(text) <= MAX_KEY_DIGITS else None
    if found is None:
        raise CommandError(_("There is no checkpoint %s.") % shortened(text))
    return found


def _by_id(location: Location, identifier: str) -> Checkpoint:
    rows = location.checkpoints.select_related("location__project", "run", "stored_copy")
    if is_indexed(location):
        key, slash, identifier = identifier.rpartition("/")
        if not slash:
            raise CommandError(_("Name a checkpoint of this location as LOCATION#THREAD/CHECKPOINT."))
        rows = rows.filter(run=opened_run(location, key))
    found = list(rows.filter(checkpoint_id__in=(identifier, unquote(identifier)))) or list(
        rows.filter(checkpoint_id__startswith=identifier)
    )
    # A copied file repeats its id; the checkpoint that can be run comes first.
    found.sort(key=lambda row: row.state != Checkpoint.State.PRESENT)
    if not found:
        raise CommandError(
            _("%(location)s has no checkpoint %(id)s.") % {"location": location.path, "id": identifier}
        )
    if len({row.checkpoint_id for row in found}) > 1:
        raise CommandError(_("Several checkpoints begin with %s. Enter a complete id.") % identifier)
    return found[0]


def _by_file(file: Path) -> Checkpoint:
    location = imported_location(_folder_of(file))
    key = ask(host_requests.StoredKey(location.pk, file.relative_to(location.path).as_posix()))
    rows = location.checkpoints.select_related("location__project", "run", "stored_copy")
    row = rows.filter(source_key=key).first()
    if row is None:
        problem = location.problems.filter(source_key=key).first()
        reason = translate(problem.reason) if problem else _("it was not found there")
        raise CommandError(
            _("%(file)s is not a readable checkpoint: %(reason)s") % {"file": file, "reason": reason}
        )
    return row


def _folder_of(file: Path) -> Path:
    """The location that a file belongs to: a known one, else the folder above its branch."""
    above = [str(folder) for folder in file.parents]
    known = Location.objects.here().filter(path__in=above).order_by("-path").first()
    if known:
        return Path(known.path)
    try:
        branch = Path(json.loads(content_at(file, ReadLimits().max_bytes) or b"").get("branch") or "")
    except (ValueError, TypeError, AttributeError, RecursionError):
        branch = Path()
    parts, folder = branch.parts, file.parent
    is_above = bool(parts) and not branch.is_absolute() and folder.parts[-len(parts) :] == parts
    return folder.parents[len(parts) - 1] if is_above else folder


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
