"""The events that write checkpoints and how many are kept, from the arguments of a command."""

from argparse import SUPPRESS
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.values import TEXT
from viewer.jobs.request import CheckpointSettings
from viewer.launching.requests.option_values import MAX_KEPT_CHECKPOINTS
from viewer.validation import number_option


def add_checkpoint_arguments(parser: CommandParser) -> None:
    """Add --events and --max-checkpoints. The runner refuses events that the engine does not know."""
    parser.add_argument(
        "--events",
        type=TEXT,
        metavar="A,B",
        help=_("The engine's events at which it writes a checkpoint; * for all."),
    )
    parser.add_argument(
        "--max-checkpoints",
        type=number_option(1, MAX_KEPT_CHECKPOINTS),
        metavar="N",
        help=_("Keep only the latest N of the checkpoints that this run writes."),
    )
    # Scripts written for earlier versions use this name.
    parser.add_argument(
        "--most", type=number_option(1, MAX_KEPT_CHECKPOINTS), dest="max_checkpoints", help=SUPPRESS
    )


def checkpoint_settings_of(options: Mapping[str, Any]) -> CheckpointSettings:
    """The settings that were chosen. Raises CommandError."""
    settings = CheckpointSettings()
    if options.get("events") is not None:
        settings["events"] = [name.strip() for name in options["events"].split(",") if name.strip()]
        if not settings["events"]:
            raise CommandError(_("--events needs a name, such as task_completed."))
    if options.get("max_checkpoints") is not None:
        settings["max_checkpoints"] = options["max_checkpoints"]
    return settings
