"""What a checkpoint would do beside the project's own code, and how the terminal accepts it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from viewer.jobs.preflight.checks import unaccepted_effects
from viewer.models import AcceptedEffect, Checkpoint, Project, accept_effects

Effects = Sequence[Mapping[str, Any]]


def add_effect_arguments(parser: CommandParser) -> None:
    """Declare how effects are accepted."""
    parser.add_argument(
        "--accept-effects",
        action="store_true",
        help=_("Accept for the project what the checkpoint would import, start, read, contact or get."),
    )


def refused_effects(
    checkpoint: Checkpoint, project: Project, entry_point: str, options: Mapping[str, Any]
) -> Effects:
    """The effects that nobody has accepted; none where they are accepted now. Raises JobRefused."""
    found = unaccepted_effects(checkpoint, project, entry_point)
    if found and options["accept_effects"]:
        accept_effects(project, found, None)
        return []
    return found


def effect_lines(effects: Effects) -> list[str]:
    """What is told where effects have to be accepted first, a line for each."""
    kinds = dict(AcceptedEffect.Kind.choices)
    return [
        _("Nothing has been started: the checkpoint has effects that nobody has accepted for this project."),
        *(f"  {kinds.get(one['kind'], one['kind'])}: {one['name']} ({one['detail']})" for one in effects),
        _("Accept them with --accept-effects, or name the project's own code with --entrypoint."),
    ]


def effect_documents(effects: Effects) -> list[dict[str, str]]:
    """The effects as JSON shows them."""
    return [{name: str(one[name]) for name in ("kind", "name", "detail", "digest")} for one in effects]
