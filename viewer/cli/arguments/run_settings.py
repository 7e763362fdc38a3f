"""Breakpoints, configurable values and context, from the arguments of a command."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.edits import named_values
from viewer.cli.arguments.values import NAME, PAIR
from viewer.engines.planning.run_settings import RunSettings


def add_run_settings_arguments(parser: CommandParser) -> None:
    """Add --stop-before, --stop-after, --configurable and --context."""
    for option, text in (
        ("--stop-before", _("LangGraph: stop before this node; * is every node.")),
        ("--stop-after", _("LangGraph: stop after this node; * is every node.")),
    ):
        parser.add_argument(option, action="append", default=[], type=NAME, metavar="NODE", help=text)
    for option, text in (
        ("--configurable", _("LangGraph: a value of the config's configurable.")),
        ("--context", _("LangGraph 0.6 and newer: a value of the runtime's context.")),
    ):
        parser.add_argument(
            option, action="append", default=[], type=PAIR, metavar="KEY=JSON|@FILE", help=text
        )


def run_settings_of(options: Mapping[str, Any]) -> RunSettings:
    """The settings. Raises CommandError."""
    return RunSettings(
        stop_before=tuple(dict.fromkeys(options["stop_before"])),
        stop_after=tuple(dict.fromkeys(options["stop_after"])),
        configurable=named_values(options["configurable"], "--configurable"),
        context=named_values(options["context"], "--context"),
    )
