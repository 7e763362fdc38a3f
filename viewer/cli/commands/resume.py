"""``manage.py checkpoints resume``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext_lazy as _

from viewer.cli.output import Answer
from viewer.cli.starting import add_run_arguments, started
from viewer.models import Job

HELP = _("Run on from a checkpoint on its own branch.")


def add_arguments(parser: CommandParser) -> None:
    add_run_arguments(parser)


def answer(options: Mapping[str, Any]) -> Answer:
    return started(Job.Kind.RESUME, options)
