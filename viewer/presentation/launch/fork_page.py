"""The page of a fork or resume."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.http import QueryDict

from viewer.engines import engine_of
from viewer.engines.protocol import Contents
from viewer.forms.checkpointing import EVENTS, read_checkpointing
from viewer.forms.fields import Sent, mark_changes, sent_texts
from viewer.forms.fork import ForkForm, FormError, Surroundings, read_fork
from viewer.forms.limits import read_limits
from viewer.forms.preflight import ACCEPT_EFFECTS, CHECK, read_accepted, read_answers
from viewer.forms.retry import Retry, retry_of_fork
from viewer.forms.schedule import read_timing
from viewer.importing import stored_contents
from viewer.launching.findings import Findings
from viewer.launching.fork import fork, preview_fork
from viewer.launching.options import LaunchOptions
from viewer.launching.plan_preview import PlanPreview
from viewer.launching.preflight import preflight_of
from viewer.launching.preview import LaunchPreview
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import ForkRequest, ResumeRequest
from viewer.launching.resume import preview_resume, resume
from viewer.lineage.branch_names import proposed_branch
from viewer.models import Checkpoint, Job, Project
from viewer.presentation.launch.attempt import attempt

# The button that has all stale steps run again.
AGAIN_STALE = "again-stale"
# A larger checkpoint takes too long to read only for its cost.
MAX_BYTES_FOR_COST = 4 * 1024 * 1024


@dataclass(slots=True)
class ForkPage:
    """``notice`` says why the button has to be pressed again. ``retry`` is for the job that it repeats."""

    form: ForkForm
    preview: LaunchPreview
    key: UUID
    notice: str = ""
    retry: Retry | None = None
    refused: list[Refusal] = field(default_factory=list)

    @property
    def request(self) -> ForkRequest:
        return self.preview.request

    @property
    def kind(self) -> Job.Kind:
        return self.request.kind

    @property
    def is_fork(self) -> bool:
        return self.kind == Job.Kind.FORK

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
    def plan(self) -> PlanPreview:
        return self.preview.plan

    @property
    def look(self) -> Findings | None:
        return self.preview.findings

    @property
    def is_stored(self) -> bool:
        """Whether it starts from the stored copy, as the checkpoint was pruned."""
        return self.checkpoint.state == Checkpoint.State.PRUNED

    @property
    def hidden(self) -> list[str]:
        return self.preview.redacted_parts

    @property
    def refusals(self) -> list[Refusal]:
        """Each reason once, those of an attempted start included."""
        return list(dict.fromkeys([*self.preview.refusals, *self.refused]))

    @property
    def against(self) -> list[str]:
        """The reasons that no field of the page can resolve."""
        return [one.message for one in self.refusals if not one.field]

    @property
    def errors(self) -> list[FormError]:
        """What has to be corrected, answered or accepted, in the order of the page."""
        fields = [one for one in self.refusals if one.field]
        return [*self.form.errors, *(FormError(one.field, one.label, one.message) for one in fields)]

    @property
    def can_start(self) -> bool:
        return not (self.refusals or self.form.errors)

    @property
    def waits_for_look(self) -> bool:
        """Whether only a preflight check that is under way prevents the start."""
        others = self.preview.checks or self.refused or self.form.errors
        return bool(self.look and self.look.is_under_way and not self.can_start and not others)

    @property
    def branch_error(self) -> str:
        return self._error(Code.BRANCH)

    @property
    def entry_point_error(self) -> str:
        return self.form.entry_point_error or self._error(Code.ENTRY_POINT)

    @property
    def shares_its_branch(self) -> bool:
        """Whether resuming gives this branch a second continuation."""
        return not self.is_fork and self.checkpoint.children.filter(branch=self.checkpoint.branch).exists()

    def start(self) -> Job | None:
        """The job; None if it was refused, for reasons that the page then shows."""
        if self.form.errors:
            return None
        request = self.request
        return attempt(self, lambda: resume(request) if isinstance(request, ResumeRequest) else fork(request))

    def _error(self, code: Code) -> str:
        return next((one.message for one in self.refusals if one.code == code), "")


def fork_page(
    type_: type[ForkRequest],
    checkpoint: Checkpoint,
    data: QueryDict | None,
    user: AbstractBaseUser | None,
    key: UUID,
    retried: Job | None,
) -> ForkPage:
    """The page as it is first shown (``data`` is None), or with what was sent."""
    contents, project = stored_contents(checkpoint), checkpoint.location.project
    sent = sent_texts(data)
    chosen = {name: data.getlist(name) if data else [] for name in ("again", "keep", EVENTS)}
    retry = None
    if retried:
        first = read_form(type_, checkpoint, contents, None, {})
        retry = retry_of_fork(first, retried, checkpoint.location.taken_branches)
    if retry and sent is None:
        sent, chosen = retry.sent, retry.chosen
    form = read_form(type_, checkpoint, contents, sent, chosen)
    request = type_(
        checkpoint=checkpoint,
        contents=contents,
        furthest=furthest(checkpoint),
        project=project,
        folder=Path(project.folder) if project else None,
        entry_point=form.entry_point,
        branch=form.branch,
        edits=form.edits,
        again_stale=AGAIN_STALE in (sent or {}),
        models=form.models.chosen,
        preload=form.models.preload,
        checkpointing=form.checkpointing.settings,
        options=LaunchOptions(form.timing.at, form.limits.values),
        accepted=read_accepted(sent),
        answers=read_answers(sent),
        key=key,
        requested_by=user,
        seen_plan=None if data is None else data.get("shown"),
    )
    preview = preview_of(request)
    if preview.needs_preflight and not form.entry_point_error:
        accepted = (sent or {}).get(ACCEPT_EFFECTS, "")
        check = preflight_of(
            request, may_start=data is not None, again=CHECK in (sent or {}), accepted_effects=accepted
        )
        preview = preview_of(replace(request, preflight=check))
    form.again, form.keep = preview.request.edits.again, preview.request.edits.keep
    return ForkPage(form, preview, key, retry=retry)


def preview_of(request: ForkRequest) -> LaunchPreview:
    """The preview of a fork or resume."""
    return preview_resume(request) if isinstance(request, ResumeRequest) else preview_fork(request)


def read_form(
    type_: type[ForkRequest],
    checkpoint: Checkpoint,
    contents: Contents,
    sent: Sent,
    chosen: Mapping[str, list[str]],
) -> ForkForm:
    """The form, first shown if ``sent`` is None. A resume has no edits."""
    project, is_fork = checkpoint.location.project, type_.kind == Job.Kind.FORK
    proposed, engine = "", engine_of(contents)
    if project:
        folder = Path(project.folder)
        proposed = engine.entry_point_for(folder, project.entry_points, contents.kind, contents.name)
    around = Surroundings(
        proposed_branch=proposed_branch(checkpoint.checkpoint_id) if is_fork else checkpoint.branch,
        entry_points=project.entry_points if project else [],
        proposed_entry_point=proposed,
    )
    own = sent
    if sent is not None and not is_fork:
        own = {"entry_point": sent.get("entry_point", ""), "branch": checkpoint.branch}
    form = read_fork(contents, around, own, chosen if is_fork else {})
    form.checkpointing = read_checkpointing(
        engine,
        engine.checkpoint_events(Path(project.interpreter) if project else None),
        contents.kind,
        contents.checkpoint_events,
        sent,
        chosen.get(EVENTS, []),
    )
    form.timing, form.limits = read_timing(sent), read_limits(sent)
    for output in form.outputs:
        mark_changes(output)
    return form


def furthest(checkpoint: Checkpoint) -> Contents | None:
    """The contents of the run's furthest checkpoint; None if it is this one."""
    rows = checkpoint.run.checkpoints.filter(size__lte=MAX_BYTES_FOR_COST).select_related("body")
    row = rows.order_by("-tasks_done", "-event_count").first()
    if row is None or row.pk == checkpoint.pk:
        return None
    return stored_contents(row)
