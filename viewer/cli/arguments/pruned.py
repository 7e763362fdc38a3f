"""What has to be agreed to before a run starts from the stored copy of a pruned checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from viewer.engines.plan import Edits, Step
from viewer.engines.protocol import Contents
from viewer.jobs.execution.start import JobRefused
from viewer.launching.draft import against
from viewer.launching.redacted_parts import hidden_in
from viewer.models import Checkpoint, Project


def add_pruned_arguments(parser: CommandParser) -> None:
    """Declare how a person agrees."""
    parser.add_argument(
        "--accept-hidden",
        action="store_true",
        help=_("Of a pruned checkpoint, send what was hidden in its copy as it reads there."),
    )


def refuse_unfit(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    contents: Contents,
    edits: Edits,
    steps: Sequence[Step],
    options: Mapping[str, Any],
) -> None:
    """Raises JobRefused where it cannot start from this checkpoint, or where a person has to agree first."""
    reasons = against(checkpoint, project, entry_point)
    if reasons:
        raise JobRefused(" ".join(reasons))
    hidden = hidden_in(contents, edits, steps) if checkpoint.state == Checkpoint.State.PRUNED else []
    if hidden and not options["accept_hidden"]:
        message = _(
            "This checkpoint was pruned, and its copy lacks what was hidden in: %(places)s. Give these anew "
            "(--input, --output, --state), or send them as they read there with --accept-hidden."
        )
        raise JobRefused(message % {"places": ", ".join(hidden)})
