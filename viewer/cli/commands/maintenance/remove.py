"""``manage.py checkpoints remove``."""

import os
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import LOCATION
from viewer.cli.finding import typed_path
from viewer.cli.output import Output
from viewer.host_requests import RemoveLocation, WouldBeLost, ask
from viewer.models import Location
from viewer.stores.addresses import shown_path
from viewer.validation import path

HELP = gettext_lazy(
    "Remove a location from the list, with what Forkline stored of it. Nothing at the location is changed."
)


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location", type=LOCATION, metavar="LOCATION", help=_("A location, as the list of locations has it.")
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The removed location. Raises CommandError if it is not known, or if something would be lost."""
    location = known_location(options["location"])
    try:
        ask(RemoveLocation(location.pk))
    except WouldBeLost as refused:
        raise CommandError(f"{location.path}: {refused}") from None
    line = _("Removed %(path)s.") % {"path": location.path}
    return Output({"location": location.path, "removed": True}, [line])


def known_location(text: str) -> Location:
    """The location with this path, which need not exist any more. Raises CommandError."""
    typed = typed_path(text)
    # A location is listed with all links followed.
    paths = [text, str(path(str(typed))), os.path.realpath(path(str(typed)))]
    found = Location.objects.here().filter(path__in=paths).first()
    if found is None:
        raise CommandError(_("%s is not a location.") % shown_path(text))
    return found
