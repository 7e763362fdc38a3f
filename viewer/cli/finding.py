"""Finds the row that an argument names: a location's path, ``LOCATION#ID``, or a checkpoint's file."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from urllib.parse import unquote
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils.translation import gettext as _

from viewer import host_requests
from viewer.cli.output import CHECKPOINT, warn
from viewer.cli.projects import project_for
from viewer.formats import count_text
from viewer.host_requests import ask
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Collection, Host, Location, Run
from viewer.records.audit import Audited, is_at_terminal, opens_row
from viewer.records.hosts import is_here
from viewer.records.locations import NotLocal, is_indexed, location_named, path_of
from viewer.stores.addresses import shown_path
from viewer.validation import one_line, shortened

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
                words = _("%(location)s: %(found)s files found …")
            if counts.due:
                words = _("%(location)s: %(read)s of %(due)s new or changed files read …")
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
        is_key = target.isascii() and target.isdigit()
        row = _by_key(target) if is_key else _by_program(path, identifier)
        opens_row(Audited.CHECKPOINT, row.pk)
        return row
    if path and identifier and not Path(target).is_file():
        return _by_id(imported_location(path), identifier)
    file = typed_path(target).absolute()
    if not file.is_file():
        raise CommandError(
            _("Name a checkpoint as LOCATION#ID, or by its file. This is neither: %s") % shown_path(target)
        )
    return _by_file(file.resolve())


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


def _by_program(path: str, identifier: str) -> Checkpoint:
    if not (path and identifier):
        raise CommandError(_("Name a checkpoint as LOCATION#ID, or by its key."))
    return _by_id(imported_location(path), identifier)


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
    row = (
        location.checkpoints.select_related("location__project", "run", "stored_copy")
        .filter(source_key=key)
        .first()
    )
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
        branch = json.loads(file.read_bytes()).get("branch") or ""
    except (OSError, ValueError, AttributeError, RecursionError):
        branch = ""
    parts = Path(branch).parts
    folder = file.parent
    return folder.parents[len(parts) - 1] if parts and folder.parts[-len(parts) :] == parts else folder
