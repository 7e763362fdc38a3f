"""What the rows of a location say about it."""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.translation import gettext as _

from viewer.engines import engine_name, store_format_named
from viewer.models import Checkpoint, Location
from viewer.validation import storable

FILE_URL = re.compile(r"file:/", re.IGNORECASE)
LOCAL_HOSTS = {"", "localhost"}


def is_indexed(location: Location) -> bool:
    """Whether a location is only indexed, because its engine's databases are too large to be copied."""
    return (
        location.store_kind != Location.StoreKind.JSON
        and store_format_named(engine_name(location)).is_indexed
    )


def keeps_files(location: Location) -> bool:
    """Whether checkpoints of this location can be deleted one by one at their source.

    Of others, only the stored copies of checkpoints that are no longer there can be deleted.
    """
    return location.is_local and location.takes_runs and not is_indexed(location)


def has_threads(location: Location) -> bool:
    """Whether this location has the threads of LangGraph."""
    return is_indexed(location)


def deletes_threads(location: Location) -> bool:
    """Whether threads can be deleted at their source, in the interpreter of a project that may run."""
    return has_threads(location) and location.project is not None and location.project.is_confirmed


def removal_blocker(location: Location) -> str:
    """Why the location cannot be removed, as of its last import; empty if it can."""
    if location.jobs.exists():
        return _("Jobs ran here, and their records would be deleted with it.")
    # Without stored copies, only data that the source still has would be deleted.
    copies = location.checkpoints.filter(stored_copy__isnull=False).exclude(state=Checkpoint.State.NO_COPY)
    if not location.read_error:
        copies = copies.exclude(state=Checkpoint.State.PRESENT)
    if copies.exists():
        return _(
            "Some of its checkpoints can no longer be read at its path. Only their stored copies remain."
        )
    return ""


def location_named(text: str) -> Location:
    """Return the location that a person named as PATH or HOST:PATH. Raises ValidationError."""
    text = storable(text.strip())
    host, _colon, path = text.partition(":")
    found = list(Location.objects.filter(Q(path=text) | Q(host__name=host, path=path))[:2])
    if len(found) > 1:
        raise ValidationError(_("Several hosts have %(path)s. Write HOST:PATH.") % {"path": text})
    if not found:
        raise ValidationError(_("There is no location %(path)s.") % {"path": text})
    return found[0]


class NotLocal(ValueError):
    """The URL does not name a file on this machine. The message is for a person."""


def path_of(text: str | Path) -> Path:
    """The path that a person typed, as a path or a ``file://`` URL. Raises NotLocal."""
    if isinstance(text, Path) or not FILE_URL.match(text):
        return Path(text)
    try:
        url = urlsplit(text)
    except ValueError:
        raise NotLocal(_("This path cannot be opened.")) from None
    if url.netloc.lower() not in LOCAL_HOSTS:
        raise NotLocal(
            _("%(url)s names a file on the host %(host)s. Only files on this machine can be opened.")
            % {"url": text, "host": url.netloc}
        )
    if url.query or url.fragment:
        raise NotLocal(_("%s is not a path. Write ? and # in a file name as %%3F and %%23.") % text)
    return Path(unquote_to_bytes(url.path).decode("utf-8", "surrogateescape"))
