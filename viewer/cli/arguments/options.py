"""The start time and limits of a run, from the arguments of a command."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.values import NAME, PAIR
from viewer.launching.requests.option_values import parse_limit, parse_start_time
from viewer.launching.requests.options import LaunchOptions
from viewer.models.jobs.limits import MEASURES


def add_launch_arguments(parser: CommandParser) -> None:
    """Add --at and --limit."""
    parser.add_argument(
        "--at",
        type=NAME,
        metavar="TIME",
        help=_("The start time, as an ISO time; in the server's time zone unless it names one."),
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        type=PAIR,
        metavar="MEASURE=NUMBER",
        help=_("Stop at this many tokens, seconds or steps (finished tasks or methods): tokens=20000."),
    )


def launch_options_of(options: Mapping[str, Any]) -> LaunchOptions:
    """The launch options. Raises CommandError for an invalid time or limit."""
    limits: dict[str, float] = {}
    for text in options["limit"]:
        measure, _equals, number = text.partition("=")
        if measure not in MEASURES:
            names = ", ".join(MEASURES)
            raise CommandError(_("--limit needs one of %(names)s, such as tokens=20000.") % {"names": names})
        try:
            limits[measure] = parse_limit(measure, number)
        except ValueError as error:
            raise CommandError(f"--limit {text}: {error}") from error
    try:
        return LaunchOptions(parse_start_time(options["at"]) if options["at"] else None, limits)
    except ValueError as error:
        raise CommandError(f"--at {options['at']}: {error}") from error
