"""The events that write checkpoints and how many are kept, from the arguments of a command."""

from argparse import SUPPRESS
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.jobs.request import CheckpointSettings
from viewer.launching.requests.option_values import parse_kept_checkpoints
from viewer.launching.requests.values import InvalidValue


def add_checkpoint_arguments(parser: CommandParser) -> None:
    """Add --events and --max-checkpoints. The runner refuses events that the engine does not know."""
    parser.add_argument(
        "--events", metavar="A,B", help=_("The engine's events at which it writes a checkpoint; * for all.")
    )
    parser.add_argument(
        "--max-checkpoints",
        metavar="N",
        help=_("Keep only the latest N of the checkpoints that this run writes."),
    )
    # Scripts written for earlier versions use this name.
    parser.add_argument("--most", dest="max_checkpoints", help=SUPPRESS)


def checkpoint_settings_of(options: Mapping[str, Any]) -> CheckpointSettings:
    """The settings that were chosen. Raises CommandError."""
    settings = CheckpointSettings()
    if options.get("events") is not None:
        settings["events"] = [name.strip() for name in options["events"].split(",") if name.strip()]
        if not settings["events"]:
            raise CommandError(_("--events needs a name, such as task_completed."))
    if options.get("max_checkpoints") is not None:
        try:
            settings["max_checkpoints"] = parse_kept_checkpoints(options["max_checkpoints"])
        except InvalidValue:
            raise CommandError(_("--max-checkpoints must be a whole number of at least 1.")) from None
    return settings
