"""Where a new run may write: a location that is there, or a new one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.importing.file_urls import NotLocal, path_of
from viewer.importing.limits import address_at
from viewer.importing.locations import UnknownLocation, is_same, permitted_path
from viewer.messages.labels import told
from viewer.models import Location, Project
from viewer.stores.location_reader import open_reader
from viewer.stores.protocol import LocationUnreadable
from viewer.stores.safe_open import found_at

# What a new SQLite file's name ends with; anything else is a folder.
STORES = {".db", ".sqlite", ".sqlite3"}


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A path that can be written to, and in which form."""

    path: str
    provider: Location.Provider


def write_target_at(text: str, project: Project, roots: Sequence[Path] | None = None) -> WriteTarget:
    """The place that a person names, from the project's folder on. Nothing is made yet.

    Without roots any path is trusted. Raises UnknownLocation where nothing may be written there.
    """
    try:
        named = path_of(text)
    except NotLocal as error:
        raise UnknownLocation(str(error)) from None
    found = permitted_path(Path(project.folder) / named.expanduser(), roots)
    known = Location.objects.filter(path=str(found)).select_related("project").first()
    if known and known.project and known.project.folder != project.folder:
        raise UnknownLocation(_("The runs at this location belong to another project."))
    _refuse_what_cannot_be_written(found)
    is_store = found.suffix.casefold() in STORES
    if known:
        is_store = known.provider == Location.Provider.SQLITE
    if found.exists() and not (is_store and found.is_file() and found.stat().st_size == 0):
        try:
            # Opened, as nobody's database is to get a table of checkpoints that it has not had.
            with open_reader(address_at(found)) as store:
                store.check()
                return WriteTarget(str(found), Location.Provider(store.kind))
        except LocationUnreadable as error:
            raise UnknownLocation(told(error)) from None
    return WriteTarget(str(found), Location.Provider.SQLITE if is_store else Location.Provider.JSON)


def write_target_of(location: Location, project: Project) -> WriteTarget:
    """The place of a location that is there. Raises UnknownLocation, too, where it leads elsewhere by now."""
    place = write_target_at(location.path, project)
    if place.path != location.path:
        raise UnknownLocation(
            _("%(path)s leads to %(place)s by now.") % {"path": location.path, "place": place.path}
        )
    return place


def open_write_target(place: WriteTarget, project: Project) -> Location:
    """The location at this place, made and added where it is new. Raises UnknownLocation, where it cannot be.

    A new store is an empty file until its first checkpoint, a new folder is an empty one.
    """
    path = Path(place.path)
    was_there = os.path.lexists(path)
    try:
        if place.provider == Location.Provider.SQLITE:
            make_folder_for_user(path.parent)
            make_file_for_user(path)
        else:
            make_folder_for_user(path)
    except OSError as error:
        raise UnknownLocation(
            _("%(path)s cannot be made: %(reason)s.") % {"path": path, "reason": error.strerror}
        ) from None
    try:
        with found_at(path, settings.CHECKPOINT_ROOTS) as found:
            identity = str(found.identity)
    except LocationUnreadable as error:
        raise UnknownLocation(told(error)) from None
    location, is_new = Location.objects.get_or_create(
        path=place.path, defaults={"provider": place.provider, "project": project, "identity": identity}
    )
    if not is_new and location.identity and not is_same(location.identity, identity):
        if was_there:
            raise UnknownLocation(_("%s was replaced since it was added: open its location first.") % path)
        location.pin(identity)
    if location.project is None:
        location.project = project
        location.save(update_fields=["project"])
    return location


def make_folder_for_user(path: Path) -> None:
    """Make a folder, and those above it, as the user's own programs would make them. Raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        one.chmod(0o777 & ~settings.USERS_UMASK)


def make_file_for_user(path: Path) -> None:
    """Make an empty file as the user's own programs would, where there is none. Raises OSError."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    path.chmod(0o666 & ~settings.USERS_UMASK)


def _refuse_what_cannot_be_written(path: Path) -> None:
    try:
        nearest = next(one for one in (path, *path.parents) if one.exists())
        is_place = nearest.is_dir() or nearest == path
    except OSError:
        raise UnknownLocation(_("This is no path that can be opened.")) from None
    if not is_place:
        raise UnknownLocation(_("%s is a file, so nothing can stand in it.") % nearest)
    if not os.access(nearest, os.W_OK):
        raise UnknownLocation(_("Nothing may be written to %s.") % nearest)
