"""Write targets: the existing or new locations that a new run writes to."""

import os
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.engines import DEFAULT
from viewer.host.locations.adding import add_location, is_same, permitted_path
from viewer.host.locations.sources import address_at
from viewer.host.reading.location_reader import open_reader
from viewer.host_requests import UnknownLocation, WriteTarget
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Location, Project
from viewer.records.hosts import pool_of
from viewer.records.locations import NotLocal, path_of
from viewer.stores.addresses import SAVER_PREFIX, is_uri, name_in
from viewer.stores.errors import LocationUnreadable
from viewer.stores.safe_open import found_at

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
    found = permitted_path(Path(project.folder) / named.expanduser(), roots)
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
        "pool": pool_of(project),
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
