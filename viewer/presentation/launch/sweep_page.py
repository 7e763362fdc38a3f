"""The page of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from django.forms import Form
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.forms.launch.fork import EntryPointForm
from viewer.forms.launch.preflight import PreflightForm
from viewer.forms.launch.sweep import SweepForm
from viewer.forms.models import models_form
from viewer.launching.preview.launch_preview import unrestored
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests.naming import sweep_prefix
from viewer.launching.requests.requests import SweepRequest
from viewer.launching.sweep import SweepPreview, preview_sweep, sweep
from viewer.launching.variations.variations import MAX_VARIATIONS
from viewer.models import Checkpoint, Job, Sweep
from viewer.presentation.launch.checkpoint_page import CheckpointPage, source_at
from viewer.presentation.launch.option_parts import OptionParts
from viewer.presentation.launch.page import FieldError, Submission, preflight_for
from viewer.presentation.launch.variation_parts import VariationPart, dimension_fields, variation_parts

TITLES = {
    "input": _("Inputs"),
    "state": _("State"),
    "answer": _("Answers"),
    "configurable": _("Configurable values"),
    "context": _("Context"),
    "output": _("Outputs"),
    "model": _("Models"),
}


@dataclass(frozen=True, slots=True)
class SweepParts:
    """The parts of the page. ``dimensions`` is what the forks differ in, ordered by group."""

    target: SweepForm
    dimensions: list[VariationPart]
    options: OptionParts

    @property
    def sections(self) -> list[tuple[str, str, list[VariationPart]]]:
        """The dimensions by group: its name, its title and its parts."""
        groups = groupby(self.dimensions, attrgetter("group"))
        return [(group, str(TITLES[group]), list(parts)) for group, parts in groups]


@dataclass(kw_only=True)
class SweepPage(CheckpointPage[Sweep]):
    """``parts`` holds the common values of all forks, and the varied ones."""

    parts: SweepParts
    preview: SweepPreview
    # Used by templates shared with the fork page.
    is_fork: bool = True
    kind: str = Job.Kind.FORK

    @property
    def forms(self) -> Sequence[Form]:
        return (*self.parts.options.forms, self.parts.target)

    @property
    def checked(self) -> SweepPreview:
        return self.preview

    @property
    def request(self) -> SweepRequest:
        return self.preview.request

    @property
    def shows_refusal(self) -> bool:
        return bool(self.against or (self.is_sent and not self.can_start))

    @property
    def max_variations(self) -> int:
        return MAX_VARIATIONS

    @property
    def unrestored(self) -> str:
        return "" if self.findings else unrestored(self.request)

    @property
    def refusals(self) -> list[Refusal]:
        """Each reason once. Invalid values are not also reported as a lack of variations."""
        found = super().refusals
        if any(part.error for part in self.parts.dimensions) and not self.preview.count:
            return [one for one in found if one.code != Code.VARIATIONS]
        return found

    @property
    def form_errors(self) -> list[FieldError]:
        """The errors of all forms, those of the variations first, as on the page."""
        first = {part.html_id for part in self.parts.dimensions}
        return sorted(super().form_errors, key=lambda error: error.html_id not in first)

    def launch(self) -> Sweep:
        return sweep(self.request)


def sweep_page(checkpoint: Checkpoint, submission: Submission, sweep_key: UUID) -> SweepPage:
    """The page in its initial state, or with the submitted values. ``sweep_key`` identifies the sweep."""
    source, data = source_at(checkpoint), submission.data
    models, preflight = models_form(source.contents, data), PreflightForm(data)
    chosen = EntryPointForm(data, source.entry_points, source.proposed).chosen_entry_point
    schema = source.schema(chosen)
    as_nodes = engine_of(source.contents).editable(source.contents).as_nodes and schema.units
    fields = dimension_fields(source.contents, models, schema)
    target = SweepForm(data, source.entry_points, source.proposed, fields, as_nodes)
    parts = SweepParts(target, variation_parts(target, data), source.options(models, data, schema))
    request = SweepRequest(
        **source.request_values(parts.options, preflight, submission),
        entry_point=target.chosen_entry_point,
        prefix=target.branch_name,
        dimensions=target.dimensions,
        again_stale=target.runs_stale_again,
        as_node=target.chosen_node,
        score=target.score_function,
        accepted=replace(preflight.accepted_by_person, redacted_parts=""),
        key=sweep_key,
    )
    if not request.prefix:
        request = replace(request, prefix=sweep_prefix(request))
    preview = preview_sweep(request)
    if preview.needs_preflight and not target.errors.get("entry_point"):
        preview = preview_sweep(replace(request, preflight=preflight_for(request, preflight)))
    return SweepPage(**submission.page_values, parts=parts, preview=preview)
