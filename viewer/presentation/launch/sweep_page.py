"""The page of a sweep."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.http import QueryDict

from viewer.engines.protocol import Contents
from viewer.forms.checkpointing import EVENTS
from viewer.forms.fields import sent_texts
from viewer.forms.fork import ForkForm, FormError
from viewer.forms.preflight import ACCEPT_EFFECTS, CHECK, read_accepted, read_answers
from viewer.forms.sweep import SweepForm, read_sweep
from viewer.importing import stored_contents
from viewer.launching.findings import Findings
from viewer.launching.options import LaunchOptions
from viewer.launching.preflight import preflight_of
from viewer.launching.preview import unrestored
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import ForkRequest, SweepRequest
from viewer.launching.sweep import SweepPreview, preview_sweep, sweep
from viewer.models import Checkpoint, Job, Project, Sweep
from viewer.presentation.launch.attempt import attempt
from viewer.presentation.launch.fork_page import furthest, read_form


@dataclass(slots=True)
class SweepPage:
    """``form`` holds what all forks have in common, ``varying`` what they differ in."""

    form: ForkForm
    varying: SweepForm
    preview: SweepPreview
    key: UUID
    notice: str = ""
    refused: list[Refusal] = field(default_factory=list)
    # Templates that a fork's page shares read these.
    is_fork: bool = True
    kind: str = Job.Kind.FORK

    @property
    def request(self) -> SweepRequest:
        return self.preview.request

    @property
    def checkpoint(self) -> Checkpoint:
        return self.request.checkpoint

    @property
    def project(self) -> Project | None:
        return self.request.project

    @property
    def contents(self) -> Contents:
        return self.request.contents

    @property
    def look(self) -> Findings | None:
        return self.preview.findings

    @property
    def unrestored(self) -> str:
        return "" if self.look else unrestored(self.request)

    @property
    def own_refusals(self) -> list[Refusal]:
        found = list(dict.fromkeys([*self.preview.refusals, *self.refused]))
        if self.varying.errors and not self.preview.count:
            return [one for one in found if one.code != Code.VARIATIONS]
        return found

    @property
    def refusals(self) -> list[str]:
        """The reasons that no field of the page can resolve."""
        return [one.message for one in self.own_refusals if not one.field]

    @property
    def errors(self) -> list[FormError]:
        """What has to be corrected, answered or accepted, in the order of the page."""
        fields = [one for one in self.own_refusals if one.field]
        plain = [*self.varying.errors, *self.form.errors]
        return [*plain, *(FormError(one.field, one.label, one.message) for one in fields)]

    @property
    def can_start(self) -> bool:
        return not (self.own_refusals or self.varying.errors or self.form.errors)

    @property
    def entry_point_error(self) -> str:
        own = (one.message for one in self.own_refusals if one.code == Code.ENTRY_POINT)
        return self.form.entry_point_error or next(own, "")

    @property
    def branch_error(self) -> str:
        return next((one.message for one in self.own_refusals if one.code == Code.BRANCH), "")

    def start(self) -> Sweep | None:
        """The sweep; None if it was refused, for reasons that the page then shows."""
        if self.varying.errors or self.form.errors:
            return None
        return attempt(self, lambda: sweep(self.request))


def sweep_page(
    checkpoint: Checkpoint,
    data: QueryDict | None,
    user: AbstractBaseUser | None,
    key: UUID,
    sweep_key: UUID,
) -> SweepPage:
    """The page as it is first shown (``data`` is None), or with what was sent.

    ``key`` is that of the form, ``sweep_key`` that of the sweep which it starts.
    """
    contents, project = stored_contents(checkpoint), checkpoint.location.project
    sent = sent_texts(data)
    chosen = {EVENTS: data.getlist(EVENTS) if data else []}
    form = read_form(ForkRequest, checkpoint, contents, sent, chosen)
    varying = read_sweep(contents, form, None if data is None else dict(data.lists()))
    request = SweepRequest(
        checkpoint=checkpoint,
        contents=contents,
        furthest=furthest(checkpoint),
        project=project,
        folder=Path(project.folder) if project else None,
        entry_point=form.entry_point,
        prefix=varying.base,
        dimensions=varying.dimensions,
        again_stale=varying.again_stale,
        models=form.models.chosen,
        preload=form.models.preload,
        checkpointing=form.checkpointing.settings,
        options=LaunchOptions(form.timing.at, form.limits.values),
        accepted=replace(read_accepted(sent), redacted_parts=""),
        answers=read_answers(sent),
        key=sweep_key,
        requested_by=user,
        seen_plan=None if data is None else data.get("shown"),
    )
    preview = preview_sweep(request)
    passable = {Code.BRANCH, Code.VARIATIONS, Code.PLAN, Code.REDACTED_PARTS}
    if all(one.code in passable for one in preview.checks) and not form.entry_point_error:
        accepted = (sent or {}).get(ACCEPT_EFFECTS, "")
        check = preflight_of(
            request, may_start=data is not None, again=CHECK in (sent or {}), accepted_effects=accepted
        )
        preview = preview_sweep(replace(request, preflight=check))
    return SweepPage(form, varying, preview, key)
