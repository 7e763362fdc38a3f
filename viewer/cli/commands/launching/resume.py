"""``manage.py checkpoints resume``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext_lazy as _

from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output
from viewer.cli.starting import add_run_arguments, request_from, started
from viewer.launching.requests import ResumeRequest

HELP = _("Continue from a checkpoint on its own branch.")


def add_arguments(parser: CommandParser) -> None:
    add_run_arguments(parser)


def handle(options: Mapping[str, Any]) -> Output:
    checkpoint = checkpoint_at(options["checkpoint"])
    request = request_from(ResumeRequest, checkpoint, checkpoint.recorded_branch, options)
    return started(request, options)
