"""``manage.py checkpoints publish``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import CHECKPOINT
from viewer.cli.finding import checkpoint_at
from viewer.cli.options import add_options
from viewer.cli.output import Output
from viewer.cli.projects import add_project_arguments, project_for
from viewer.cli.starting import outcome_of, refusal
from viewer.formats import count_text
from viewer.launching.options import NEW_THREAD_NAME, PUBLISH_INTO
from viewer.launching.publish import THREAD, PublishPreview, preview_publish, publish
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import PublishRequest

HELP = gettext_lazy("Write a draft, which is a fork in Forkline only, to its location.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint", type=CHECKPOINT, metavar="LOCATION#ID", help=_("A checkpoint that the fork wrote.")
    )
    add_options(parser, PUBLISH_INTO, NEW_THREAD_NAME)
    parser.add_argument("--plan", action="store_true", help=_("Show what would be written without writing."))
    parser.add_argument(
        "--wait", action="store_true", help=_("Wait until it ends. Run it here if no worker is running.")
    )
    add_project_arguments(parser)


def handle(options: Mapping[str, Any]) -> Output:
    checkpoint = checkpoint_at(options["checkpoint"])
    if not checkpoint.is_scratch:
        raise CommandError(_("Only a draft, which is a fork in Forkline only, can be published."))
    project = project_for(checkpoint.location, options)
    request = PublishRequest(
        checkpoint=checkpoint, into=options["into"], project=project, thread=options["thread"] or ""
    )
    preview = preview_publish(request)
    if options["plan"]:
        return _planned(preview)
    try:
        job = publish(preview)
    except LaunchRefused as refused:
        return refusal(checkpoint.recorded_branch, [], refused)
    return outcome_of(job, [], options["wait"])


def _planned(preview: PublishPreview) -> Output:
    path = preview.request.checkpoint.location.path
    words = _("%(count)s checkpoints are written to %(run)s in %(location)s.")
    lines = [words % {"count": count_text(preview.count), "run": preview.key, "location": path}]
    if preview.request.into == THREAD:
        lines.append(_(preview.kind.moves_head))
    lines += [one.message for one in preview.checks]
    document = {
        "status": "refused" if preview.checks else "planned",
        "location": path,
        "run": preview.key,
        "checkpoints": preview.count,
        "error": " ".join(one.message for one in preview.checks),
    }
    return Output(document, [*lines, _("Nothing has been written.")], status=1 if preview.checks else 0)
