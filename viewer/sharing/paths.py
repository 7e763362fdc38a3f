"""Replaces the paths of this machine in what is shown through a share link."""

import html
import re
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from viewer.models import Location

REPLACEMENT = "[path]"


def paths_of(locations: Iterable[Location]) -> list[str]:
    """Return the paths that nobody without a login may see: of locations, projects, and Forkline's own."""
    found = {str(settings.DATA_DIR), str(Path.home()), *map(str, settings.CHECKPOINT_ROOTS)}
    for location in locations:
        if location.is_local:
            found |= {location.path, *_above(location.path)}
        if location.project:
            found |= {location.project.folder, location.project.interpreter}
    return sorted((path for path in found if len(path) > 1), key=len, reverse=True)


def _above(path: str) -> list[str]:
    """Return the folder of a location, unless it is as common as ``/tmp``."""
    folder = Path(path).parent
    return [str(folder)] if len(folder.parts) > 2 else []


def without_paths(text: str, paths: Iterable[str]) -> str:
    """Return the HTML with each path replaced, together with what is below it."""
    names = {written for path in paths for written in (path, html.escape(path))}
    if not names:
        return text
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{longest_first})(?![\w.-])(?:/[\w.@+-]+)*", REPLACEMENT, text)
