"""Refusals as the terminal prints them, with the arguments that resolve them."""

from collections.abc import Sequence

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.launching.refusals import Code, LaunchRefused, Refusal
from viewer.launching.start import EffectsRefused
from viewer.models import AcceptedEffect

HINTS: dict[Code, str | Promise] = {
    Code.REDACTED_PARTS: gettext_lazy(
        "Edit them with --input, --output or --state, or send them as they are with --accept-hidden."
    ),
    Code.INPUTS: gettext_lazy("Pass it with --input NAME=JSON."),
    Code.ENTRY_POINT: gettext_lazy(
        "Name the project's folder with --project, and what runs with --graph or --entrypoint."
    ),
    Code.PROJECT: gettext_lazy("Name another project with --project, or its interpreter with --python."),
    Code.EFFECTS: gettext_lazy(
        "Accept them with --accept-effects, or name the project's own code with --entrypoint."
    ),
}


def refusal_lines(refused: LaunchRefused) -> list[str]:
    """Each message, the effects if these were refused, and hints."""
    messages = list(dict.fromkeys(one.message for one in refused.refusals))
    kinds = dict(AcceptedEffect.Kind.choices)
    if isinstance(refused, EffectsRefused):
        messages += [
            f"  {kinds.get(one['kind'], one['kind'])}: {one['name']} ({one['detail']})"
            for one in refused.effects
        ]
        messages.insert(0, _("Nothing has been started."))
    return [*messages, *hints_of(refused.refusals)]


def hints_of(refusals: Sequence[Refusal]) -> list[str]:
    """The arguments that resolve these refusals, each once."""
    return list(dict.fromkeys(str(HINTS[one.code]) for one in refusals if one.code in HINTS))


def effects_in(refused: LaunchRefused) -> list[dict[str, str]]:
    """The refused effects for ``--json``; empty if it was refused for another reason."""
    if not isinstance(refused, EffectsRefused):
        return []
    names = ("kind", "name", "detail", "digest", "tool", "field")
    return [{name: str(one.get(name) or "") for name in names} for one in refused.effects]
