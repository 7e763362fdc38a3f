"""Variations that have not started: the forks of one form, their limit, and all that speaks against them."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from django.utils.translation import gettext as _

from viewer.engines.plan import plain_steps
from viewer.forms.fork import FormError
from viewer.forms.sweep import Branch, VaryingForm
from viewer.jobs.spool import Options
from viewer.launching.draft import Draft, against
from viewer.launching.options import Terms
from viewer.launching.redacted_parts import hidden_in


@dataclass(slots=True)
class VariationsDraft:
    """``plain`` is the fork that all are, but for what varies; ``key`` has a form start once at most."""

    plain: Draft
    varying: VaryingForm
    key: UUID
    notice: str = ""
    refusals: list[str] = field(default_factory=list)

    @property
    def terms(self) -> Terms:
        """When each of them may start, and how much all of them may use together."""
        return self.plain.terms

    @property
    def errors(self) -> list[FormError]:
        """All that must be mended or agreed to before they can start, in the order of the page."""
        # The branches have names of their own.
        plain = [error for error in self.plain.errors if error.html_id != "branch"]
        return [*self.varying.errors, *plain]

    @property
    def can_start(self) -> bool:
        return not (self.refusals or self.errors)

    @property
    def shown_plan(self) -> str:
        """Tells two groups apart: a form that was sent names the one that its person has seen."""
        told = [[one.name, one.models, plain_steps(one.promise.steps)] for one in self.varying.branches]
        return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def options_of(self, branch: Branch) -> Options:
        """The options of one of them; its group says who warms the cache."""
        options = self.plain.options
        options.pop("cache_warmup", None)
        if branch.models:
            options["models"] = branch.models
        return options


def variations_draft(plain: Draft, varying: VaryingForm, key: UUID) -> VariationsDraft:
    """The draft of these branches, each of which is ``plain`` but for what varies."""
    draft = VariationsDraft(plain, varying, key)
    draft.refusals = against(plain.checkpoint, plain.project, plain.form.entry_point)
    draft.refusals += plain.look.blocks if plain.look else []
    told = [refusal for branch in varying.branches for refusal in branch.promise.refusals]
    draft.refusals += dict.fromkeys(told)
    if plain.is_stored and any(
        hidden_in(plain.contents, one.edits, one.promise.steps) for one in varying.branches
    ):
        draft.refusals.append(
            _("Something in this checkpoint's stored copy is hidden. Fork it one by one, to look it over.")
        )
    return draft
