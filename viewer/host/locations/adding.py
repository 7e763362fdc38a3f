"""The list of locations: adding, moving and removing them by their paths."""

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.engines import DEFAULT, ENGINES, all_engines, store_format_named
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import address_at, address_of_database, import_lock
from viewer.host.reading.location_reader import LocationReader, open_reader
from viewer.host_requests import UnknownLocation, WouldBeLost, WriteTarget
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location, Pool, Project, StoredCopy
from viewer.records import bucket
from viewer.records.audit import Action, Audited, record
from viewer.records.locations import NotLocal, is_indexed, path_of, removal_blocker
from viewer.stores import (
    SAVER_PREFIX,
    Identity,
    is_uri,
    name_in,
    path_of_database,
    path_of_saver,
    saver_in,
)
from viewer.stores.protocol import Entry, LocationUnreadable, Packed
from viewer.stores.safe_open import found_at, is_inside

# Add locations by their paths.


# How many entries of a new location are read to recognise its engine.
MAX_PROBED = 5
# How many names of a folder are compared with one that is not there.
MAX_COMPARED = 2000


def open_location(path: str | Path, roots: Sequence[Path] | None = None) -> Location:
    """The location at this path, added if it is new. Without roots any path is allowed.

    If another folder or file is there now, the location is pinned to that one. Raises
    UnknownLocation.
    """
    if name := _database_name(str(path)):
        return _open_database(name)
    if str(path).startswith(SAVER_PREFIX):
        return _open_saver(str(path).removeprefix(SAVER_PREFIX), roots)
    found = permitted_path(path, roots)
    known = Location.objects.here().filter(path=str(found)).first()
    if known is not None and not known.identity:
        return known
    try:
        with open_reader(address_at(found)) as reader:
            identity = str(reader.identity)
            if known is not None and is_same(known.identity, identity):
                return known
            kind = reader.store_kind()
            # Reading checkpoints of a large file takes long, and the engine of a known location is known.
            engine = known.engine if known else _recognised_engine(reader)
    except LocationUnreadable as error:
        if known is not None:
            return known
        raise UnknownLocation(" ".join(filter(None, (translate(error), _similar(found))))) from None
    if known is None:
        defaults = {"store_kind": kind, "identity": identity, "engine": engine}
        return add_location(str(found), defaults)[0]
    if known.store_kind == kind:
        known.pin(identity)
    return known


def add_location(path: str, defaults: Mapping[str, Any]) -> tuple[Location, bool]:
    """Return the location at a path of this machine, and whether it is new, with these values."""
    with transaction.atomic():
        location, is_new = Location.objects.here().get_or_create(path=path, defaults=defaults)
        if is_new:
            record(Action.ADDED, Audited.LOCATION, location.uid, path)
    return location, is_new


def addable_databases() -> list[str]:
    """The paths of the databases in the settings that are not locations yet."""
    paths = [path_of_database(name) for name in sorted(settings.POSTGRESQL_LOCATIONS)]
    known = set(Location.objects.here().filter(path__in=paths).values_list("path", flat=True))
    return [path for path in paths if path not in known]


def _database_name(text: str) -> str:
    """The name of the database that a person typed; empty for a path. Raises UnknownLocation for a URI."""
    if is_uri(text):
        raise UnknownLocation(
            _(
                "PostgreSQL databases are added by name, so that no password is stored: name the connection "
                "in the setting POSTGRESQL_LOCATIONS, and add postgresql:NAME."
            )
        )
    is_name = text in settings.POSTGRESQL_LOCATIONS and not Path(text).exists()
    return text if is_name else name_in(text)


def _open_database(name: str) -> Location:
    """The location of a database that is in the settings, added if it is new. Raises UnknownLocation."""
    path = path_of_database(name)
    try:
        address = address_of_database(name)
        if known := Location.objects.here().filter(path=path).first():
            return known
        with open_reader(address) as reader:
            defaults = {"store_kind": reader.kind, "engine": reader.engine()}
    except LocationUnreadable as error:
        raise UnknownLocation(translate(error)) from None
    return add_location(path, defaults)[0]


def _open_saver(text: str, roots: Sequence[Path] | None) -> Location:
    """The location of a project's saver, added if it is new: ``FOLDER`` or ``FOLDER:module:name``.

    Nothing is imported: a person first permits to run the project's code. Raises UnknownLocation.
    """
    folder, saver = text, ""
    if text.count(":") >= 2 and not Path(text).is_dir():
        folder, saver = saver_in(f"{SAVER_PREFIX}{text}")
    found = permitted_path(folder, roots)
    if not found.is_dir():
        raise UnknownLocation(_("%(path)s is not a folder.") % {"path": found})
    for engine in all_engines():
        if named := engine.saver_of(found, saver):
            defaults = {
                "store_kind": Location.StoreKind.SAVER,
                "engine": engine.name,
                "project": Project.objects.here().filter(folder=str(found)).first(),
            }
            path = path_of_saver(str(found), named)
            return add_location(path, defaults)[0]
    raise UnknownLocation(
        _(
            "No checkpoint saver was found: name it as saver:FOLDER:module:name, or in the entry "
            "“checkpointer” of langgraph.json."
        )
    )


def _recognised_engine(reader: LocationReader) -> str:
    """The engine of its tables, else of its first readable checkpoints, else the default engine."""
    if engine := reader.engine():
        return engine
    others = [name for name in ENGINES if not store_format_named(name).is_indexed]
    if len(others) == 1:
        return others[0]
    entries = [entry for entry in islice(reader.entries(), MAX_PROBED) if isinstance(entry, Entry)]
    found = (one.snapshot.engine for one in reader.read_all(entries, 1) if isinstance(one, Packed))
    return next(found, DEFAULT)


def _similar(missing: Path) -> str:
    """A question that names an existing path like this one; empty if it exists, or none is alike."""
    if os.path.lexists(missing):
        return ""
    parent = next((one for one in missing.parents if one.is_dir()), None)
    if parent is None:
        return ""
    name, *rest = missing.relative_to(parent).parts
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, MAX_COMPARED)]
    except OSError:
        return ""
    alike = (parent.joinpath(one, *rest) for one in get_close_matches(name, names))
    found = next((path for path in alike if path.exists() and str(path).isprintable()), None)
    return _("Did you mean %(path)s?") % {"path": found} if found else ""


def is_same(recorded: str, found: str) -> bool:
    """Whether both identities are of the same folder or file."""
    identity = Identity.parse(found)
    return identity is not None and identity.is_recorded_as(recorded)


def permitted_path(path: str | Path, roots: Sequence[Path] | None) -> Path:
    """The resolved path, which is inside one of the roots if there are any. Raises UnknownLocation."""
    try:
        found = _expanded(path_of(path)).resolve()
        # A name that is not UTF-8 cannot be stored or shown.
        str(found).encode()
    except NotLocal as error:
        raise UnknownLocation(str(error)) from None
    except (OSError, ValueError, RuntimeError):
        raise UnknownLocation(_("This path cannot be opened.")) from None
    # Links are resolved, so that a link inside a root cannot lead out of it.
    if roots is not None and not any(found.is_relative_to(root.resolve()) for root in roots):
        raise UnknownLocation(
            _("%(path)s is outside the folders that may be opened here (CHECKPOINT_ROOTS): %(roots)s")
            % {"path": found, "roots": ", ".join(str(root) for root in roots) or "-"}
        )
    if _is_own_database(found):
        raise UnknownLocation(_("This is Forkline's own database. It contains no checkpoints of an engine."))
    if is_inside(found, settings.DATA_DIR):
        raise UnknownLocation(translate(LocationUnreadable("store.own_data_folder")))
    return found


def _expanded(path: Path) -> Path:
    """The path with the home folder of the account that runs Forkline, or that it names."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise UnknownLocation(
            _("This machine knows no home folder for %(name)s.") % {"name": path.parts[0]}
        ) from None


def overlaps(location: Location) -> Iterator[str]:
    """Sentences about a new location that contains others or is in one: checkpoints are listed twice."""
    if not location.is_local:
        return
    path, others = Path(location.path), Location.objects.here().exclude(pk=location.pk)
    for other in others.exclude(store_kind__in=Location.WITHOUT_PATH).values_list("path", flat=True):
        names = {"path": path, "other": other}
        if Path(other).is_relative_to(path):
            yield (
                _("It contains %(other)s, which is a location too. Those checkpoints are listed twice.")
                % names
            )
        elif path.is_relative_to(other):
            yield (
                _("It is inside %(other)s, which is a location too. Its checkpoints are listed twice.")
                % names
            )
    if is_inside(Path(settings.DATA_DIR), path):
        yield _("Forkline's own data folder is inside it, and is skipped: %(folder)s") % {
            "folder": settings.DATA_DIR
        }


def _is_own_database(path: Path) -> bool:
    """Whether it is a file of Forkline's own database. Closing that would release its locks."""
    if postgresql.is_used():
        return False
    name = str(connection.settings_dict["NAME"])
    for file in (name, f"{name}-wal", f"{name}-shm", f"{name}-journal"):
        try:
            if path.samefile(file):
                return True
        except (OSError, ValueError):
            continue
    return False


# Change the path of a location whose folder or file was moved. Its runs, notes and links stay.


# How many entries at the new path are compared with the known ones.
MAX_COMPARED_ENTRIES = 20_000


def change_path(location: Location, path: str | Path, roots: Sequence[Path] | None = None) -> None:
    """Read the location at another path from now on: there must be what was at the old one.

    Raises UnknownLocation.
    """
    found = permitted_path(path, roots)
    if Location.objects.here().filter(path=str(found)).exclude(pk=location.pk).exists():
        raise UnknownLocation(_("%(path)s is already a location.") % {"path": found})
    if location.jobs.unfinished().exists():
        raise UnknownLocation(_("A job of this location has not ended. Change the path after that."))
    try:
        with import_lock(location), open_reader(address_at(found)) as reader:
            if reader.store_kind() != location.store_kind or not _holds(reader, location):
                raise UnknownLocation(
                    _("None of its checkpoints are at %(path)s. Add that as a new location.")
                    % {"path": found}
                )
            with transaction.atomic():
                location.move(str(found), str(reader.identity))
                record(Action.CHANGED, Audited.LOCATION, location.uid, str(found))
    except LocationUnreadable as error:
        raise UnknownLocation(translate(error)) from None


def _holds(reader: LocationReader, location: Location) -> bool:
    """Whether it is the same folder or file, has one of the known checkpoints, or none are known."""
    if is_same(location.identity, str(reader.identity)) or not location.runs.exists():
        return True
    if is_indexed(location):
        keys = {run.key for run in reader.runs().runs}
        return any(key in keys for key in location.runs.values_list("key", flat=True).iterator())
    known = set(location.checkpoints.exclude(Checkpoint.IS_SCRATCH).values_list("source_key", flat=True))
    entries = islice(reader.entries(), MAX_COMPARED_ENTRIES)
    return any(entry.key in known for entry in entries if isinstance(entry, Entry))


# Removes a location if all of its stored data can be read again from the source.


MAX_ATTEMPTS = 5


def remove_location(location: Location) -> None:
    """Delete the rows and stored copies of a location. Nothing at its path is changed.

    Raises WouldBeLost if some of it could not be read again.
    """
    import_location(location)
    key, left = location.pk, MAX_ATTEMPTS
    with import_lock(location):
        while left:
            left -= 1
            try:
                _remove(key)
                break
            except IntegrityError:
                # On a server, the search index may have stored a row of it meanwhile.
                if not left:
                    raise


@transaction.atomic
def _remove(key: int) -> None:
    location = Location.objects.get(pk=key)
    if reason := removal_blocker(location):
        raise WouldBeLost(reason)
    bucket.release(StoredCopy.objects.filter(checkpoint__location=location))
    location.delete()
    record(Action.REMOVED, Audited.LOCATION, location.uid, location.path)


# Write targets: the existing or new locations that a new run writes to.


# The suffixes of new SQLite files. Any other path is a folder.
SQLITE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


def write_target_at(text: str, project: Project, roots: Sequence[Path] | None = None) -> WriteTarget:
    """The write target that a person names, relative to the project's folder. Nothing is created yet.

    Without roots any path is allowed. Raises UnknownLocation if it cannot be written to.
    """
    if is_uri(text) or name_in(text):
        raise UnknownLocation(_("Add a database as a location before runs write to it."))
    if text.startswith(SAVER_PREFIX):
        raise UnknownLocation(translate(UserMessage("saver.no_runs")))
    try:
        named = path_of(text)
    except NotLocal as error:
        raise UnknownLocation(str(error)) from None
    found = permitted_path(Path(project.folder) / _expanded(named), roots)
    known = Location.objects.here().filter(path=str(found)).select_related("project").first()
    if known and known.project and known.project.folder != project.folder:
        raise UnknownLocation(_("The runs at this location belong to another project."))
    _check_writable(found)
    is_sqlite = found.suffix.casefold() in SQLITE_SUFFIXES
    if known:
        is_sqlite = known.store_kind == Location.StoreKind.SQLITE
    kind = Location.StoreKind.SQLITE if is_sqlite else Location.StoreKind.JSON
    if found.exists() and not (is_sqlite and found.is_file() and found.stat().st_size == 0):
        try:
            # A database without a table of checkpoints is not a write target: nothing is added to it.
            with open_reader(address_at(found)) as reader:
                kind = Location.StoreKind(reader.store_kind())
        except LocationUnreadable as error:
            raise UnknownLocation(translate(error)) from None
    # A location of states stays one if its file is gone, or has a table of checkpoints now.
    if kind == Location.StoreKind.STATES or (known and not known.takes_runs):
        raise UnknownLocation(_("Runs cannot write checkpoints to a file of states."))
    return WriteTarget(str(found), kind.value)


def write_target_of(location: Location, project: Project) -> WriteTarget:
    """The write target of a location. Raises UnknownLocation, also if its path leads elsewhere now."""
    if location.is_only_read:
        raise UnknownLocation(translate(UserMessage("saver.no_runs")))
    if not location.is_local:
        return WriteTarget(location.path, location.store_kind)
    target = write_target_at(location.path, project)
    if target.path != location.path:
        raise UnknownLocation(
            _("%(path)s now leads to %(target)s.") % {"path": location.path, "target": target.path}
        )
    return target


def open_write_target(target: WriteTarget, project: Project, engine: str = DEFAULT) -> Location:
    """The location of a write target, created and added if it is new. Raises UnknownLocation.

    ``engine`` is the one that a new location records.
    """
    if target.store_kind == Location.StoreKind.POSTGRESQL:
        return Location.objects.here().get(path=target.path)
    path = Path(target.path)
    existed = os.path.lexists(path)
    _create(path, is_file=target.store_kind == Location.StoreKind.SQLITE)
    try:
        with found_at(path, settings.CHECKPOINT_ROOTS) as found:
            identity = str(found.identity)
    except LocationUnreadable as error:
        raise UnknownLocation(translate(error)) from None
    defaults = {
        "store_kind": target.store_kind,
        "project": project,
        "pool": Pool.objects.filter(locations__project=project).first(),
        "identity": identity,
        "engine": engine,
    }
    location, is_new = add_location(target.path, defaults)
    if not is_new and location.identity and not is_same(location.identity, identity):
        if existed:
            raise UnknownLocation(_("%s was replaced after it was added: open its location first.") % path)
        location.pin(identity)
    if location.project is None:
        location.project = project
        location.save(update_fields=["project"])
    return location


def _create(path: Path, *, is_file: bool) -> None:
    """Create a folder, or an SQLite file that is empty until its first checkpoint. Raises UnknownLocation."""
    try:
        if is_file:
            create_folder_for_user(path.parent)
            create_file_for_user(path)
        else:
            create_folder_for_user(path)
    except OSError as error:
        raise UnknownLocation(
            _("%(path)s cannot be created: %(reason)s.") % {"path": path, "reason": error.strerror}
        ) from None


def create_folder_for_user(path: Path) -> None:
    """Create a folder and its parents with the permissions of the user's umask. Raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        one.chmod(0o777 & ~settings.USERS_UMASK)


def create_file_for_user(path: Path) -> None:
    """Create an empty file, if there is none, with the permissions of the user's umask. Raises OSError."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    path.chmod(0o666 & ~settings.USERS_UMASK)


def _check_writable(path: Path) -> None:
    try:
        nearest = next(one for one in (path, *path.parents) if one.exists())
        is_usable = nearest.is_dir() or nearest == path
    except OSError:
        raise UnknownLocation(_("This path cannot be opened.")) from None
    if not is_usable:
        raise UnknownLocation(_("%s is a file, not a folder.") % nearest)
    if not os.access(nearest, os.W_OK):
        raise UnknownLocation(_("%s is not writable.") % nearest)
