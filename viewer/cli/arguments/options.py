"""When a run starts and how much it may use, as the terminal takes them."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.launching.option_values import parse_limit, parse_start_time
from viewer.launching.options import LaunchOptions
from viewer.models.limits import MEASURES


def add_launch_arguments(parser: CommandParser) -> None:
    """Declare --at and --limit."""
    parser.add_argument(
        "--at",
        metavar="TIME",
        help=_("Start then: an ISO time, by the server's clock where it names no zone."),
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="MEASURE=NUMBER",
        help=_("Stop at so many tokens, seconds or steps (finished tasks or methods), such as tokens=20000."),
    )


def launch_options_of(options: Mapping[str, Any]) -> LaunchOptions:
    """What was asked for. Raises CommandError for a time or a limit that is none."""
    limits: dict[str, float] = {}
    for text in options["limit"]:
        measure, _equals, number = text.partition("=")
        if measure not in MEASURES:
            names = ", ".join(MEASURES)
            raise CommandError(_("--limit takes one of %(names)s, as tokens=20000.") % {"names": names})
        try:
            limits[measure] = parse_limit(measure, number)
        except ValueError as error:
            raise CommandError(f"--limit {text}: {error}") from error
    try:
        return LaunchOptions(parse_start_time(options["at"]) if options["at"] else None, limits)
    except ValueError as error:
        raise CommandError(f"--at {options['at']}: {error}") from error
