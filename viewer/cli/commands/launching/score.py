"""``manage.py checkpoints score``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import CHECKPOINT
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output
from viewer.cli.projects import add_project_arguments, project_for
from viewer.cli.starting import outcome_of, refusal
from viewer.launching.refusals import LaunchRefused
from viewer.launching.score import score
from viewer.models import Job
from viewer.presentation.comparison_sides import score_in
from viewer.validation import CODE_NAME

HELP = gettext_lazy("Call a function of the project with a checkpoint's contents, and store what it returns.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint", type=CHECKPOINT, metavar="LOCATION#ID", help=_("A checkpoint, or a checkpoint's file.")
    )
    parser.add_argument(
        "function", type=CODE_NAME, metavar="module:function", help=_("A function of the project.")
    )
    parser.add_argument(
        "--wait", action="store_true", help=_("Wait until it ends. Run it here if no worker is running.")
    )
    add_project_arguments(parser)


def handle(options: Mapping[str, Any]) -> Output:
    """The job, and its score if it was waited for. Raises CommandError."""
    checkpoint = checkpoint_at(options["checkpoint"])
    project = project_for(checkpoint.location, options)
    try:
        job = score(checkpoint, options["function"], project)
    except LaunchRefused as refused:
        found = refusal(checkpoint.branch, [], refused)
        return Output({**found.document, "score": None}, found.lines, found.status)
    found = outcome_of(job, [], options["wait"])
    has_score = job.status == Job.Status.SUCCEEDED
    return Output(
        {**found.document, "score": score_in(job) if has_score else None}, found.lines, found.status
    )
