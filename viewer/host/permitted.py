"""What another machine may ask: about paths of this machine's rows, and in its allowed folders."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db.models import Q

from viewer import host_requests as asked
from viewer.messages.message import UserMessage
from viewer.models import Location, Project

# The fields of requests that are paths. What answers checks ``path`` and ``typed`` against allowed folders.
PATHS = ("folder", "interpreter", "environment_file", "location_path")
# No path: a form that is not filled in.
NO_PATH = ("", "/")


def checked(request: asked.Request[Any]) -> asked.Request[Any]:
    """Return a request that came over the network, which must not leave the allowed folders.

    Raises HostRefusal if it names a path that is neither in them nor in a row of this machine.
    """
    for name, path in _paths(request):
        if path not in NO_PATH and not _is_known(path) and not _is_allowed(name, path):
            roots = ", ".join(str(root) for root in settings.CHECKPOINT_ROOTS)
            raise asked.HostRefusal.saying(UserMessage("host.path_refused", {"path": path, "roots": roots}))
    if getattr(request, "anywhere", False):
        return msgspec.structs.replace(request, anywhere=False)
    return request


def _paths(request: asked.Request[Any]) -> Iterator[tuple[str, str]]:
    if isinstance(request, asked.CheckProjectPaths):
        # Its reply says which of them it refuses.
        return
    for name in PATHS:
        if (path := getattr(request, name, None)) is not None:
            yield name, path
    if isinstance(request, asked.OpenWriteTarget):
        yield "target", request.target.path


def _is_known(path: str) -> bool:
    """Whether a row of this machine has the path."""
    of_project = Q(folder=path) | Q(interpreter=path) | Q(environment_file=path)
    return (
        Location.objects.here().filter(path=path).exists()
        or Project.objects.here().filter(of_project).exists()
    )


def _is_allowed(name: str, path: str) -> bool:
    """Whether the path leads into an allowed folder."""
    try:
        found = Path(os.path.realpath(path))
        if name == "interpreter":
            # An environment's interpreter is a link to one outside, which knows none of its packages.
            found = Path(os.path.realpath(Path(path).parent)) / Path(path).name
    except (OSError, ValueError):
        return False
    is_inside = any(found.is_relative_to(root) for root in settings.CHECKPOINT_ROOTS)
    return Path(path).is_absolute() and is_inside
