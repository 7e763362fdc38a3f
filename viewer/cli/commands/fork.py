"""``manage.py checkpoints fork``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext_lazy as _

from viewer.cli.arguments.choices import add_choice_arguments
from viewer.cli.output import Answer
from viewer.cli.starting import add_run_arguments, started
from viewer.models import Job

HELP = _("Run on from a checkpoint on a branch of its own, with what you change.")


def add_arguments(parser: CommandParser) -> None:
    add_run_arguments(parser)
    add_choice_arguments(parser)
    parser.add_argument(
        "--branch", metavar="NAME", help=str(_("The new branch; without it, a name is made up."))
    )


def answer(options: Mapping[str, Any]) -> Answer:
    return started(Job.Kind.FORK, options)
