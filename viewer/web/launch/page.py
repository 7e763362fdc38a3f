"""What all launch pages share: errors, refusals, the start, and the fields of a job that is retried."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import OuterRef, Subquery
from django.forms import Form
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from viewer.engines import engine_of
from viewer.engines.editable import NO_SCHEMA, Schema
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.preflight import preflight_of, schema_at
from viewer.launching.preview import LaunchPreview
from viewer.launching.refusals import (
    UNCHECKED,
    AlreadyStarted,
    CheckedLaunch,
    Code,
    Findings,
    LaunchRefused,
    Refusal,
)
from viewer.launching.requests import CheckpointRequest, matching_entry_point
from viewer.launching.sweep import SweepPreview
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project, Run
from viewer.presentation.code import CodeChanges, code_changes
from viewer.records.bodies import stored_contents
from viewer.web.launch.edits import EntryPointForm, PreflightForm
from viewer.web.launch.options import (
    LimitsForm,
    ModelsForm,
    OptionParts,
    StartTimeForm,
    ToolsForm,
    checkpoints_part,
    run_settings_part,
)

# What a page previews, and what its form starts.
Preview = TypeVar("Preview", bound=CheckedLaunch | None)
FromCheckpoint = TypeVar("FromCheckpoint", bound=LaunchPreview | SweepPreview)
Started = TypeVar("Started")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted form and its user. ``data`` is None if the page is shown for the first time.

    ``chosen`` are the answers that the link to the page named, by their field, and ``opened`` is the part at
    which the form opens. ``call`` names the recorded model call whose answer is used, or ``answer`` another
    one of a replay (JOB:NUMBER). ``value`` is a part of another checkpoint whose value is used (KEY:PART).
    """

    data: QueryDict | None
    user: AbstractBaseUser | None
    key: UUID
    chosen: Mapping[str, str] = field(default_factory=dict)
    opened: str = ""
    call: str = ""
    answer: str = ""
    value: str = ""

    @property
    def page_values(self) -> dict[str, Any]:
        """The values that every page uses."""
        return {"key": self.key, "is_sent": self.data is not None}


@dataclass(frozen=True, slots=True)
class Retry:
    """A job that is started again. ``data`` are its fields, ``missing`` the edits that were not stored."""

    job: Job
    data: MultiValueDict[str, str]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error, with the id and label of its field."""

    html_id: str
    label: str
    message: str


@dataclass(kw_only=True)
class LaunchPage(Generic[Preview, Started]):
    """A form with the preview of its request, None if there is no request yet.

    ``notice`` asks the person to submit again. ``refused`` are the reasons why a start was refused. ``retry``
    is about the job that the page repeats.
    """

    key: UUID
    is_sent: bool
    preview: Preview
    retry: Retry | None = None
    notice: str = ""
    refused: list[Refusal] = field(default_factory=list)

    @property
    def forms(self) -> Sequence[Form]:
        """The forms, in the order of the page."""
        raise NotImplementedError

    def launch(self) -> Started:
        """Start the request. Raises LaunchRefused."""
        raise NotImplementedError

    @property
    def findings(self) -> Findings | None:
        preview: CheckedLaunch | None = self.preview
        return preview.findings if preview else None

    @property
    def refusals(self) -> list[Refusal]:
        """Each reason once, including those of an attempted start."""
        preview: CheckedLaunch | None = self.preview
        found = preview.refusals if preview else []
        return list(dict.fromkeys([*found, *self.refused]))

    @property
    def against(self) -> list[str]:
        """The reasons that no field of the page can resolve."""
        return list(dict.fromkeys(one.message for one in self.refusals if not one.field))

    @property
    def form_errors(self) -> list[FieldError]:
        """The errors of all forms, in the order of the page."""
        return [error for form in self.forms for error in errors_of(form)]

    @property
    def errors(self) -> list[FieldError]:
        """What a person has to correct, answer or accept. A field's own error precedes a refusal."""
        found = self.form_errors
        named = {error.html_id for error in found}
        fields = [one for one in self.refusals if one.field and one.field not in named]
        return [*found, *(FieldError(one.field, one.label, one.message) for one in fields)]

    @property
    def can_start(self) -> bool:
        return not (self.refusals or self.form_errors)

    @property
    def waits_for_preflight(self) -> bool:
        """Whether only a running preflight check prevents the start."""
        return False

    @property
    def is_blocked(self) -> bool:
        """Whether the start button is disabled."""
        return not self.can_start

    @property
    def is_unchecked(self) -> bool:
        """Whether only a preflight check is missing, which nobody has asked for yet."""
        missing = [one for one in self.refusals if one.field == UNCHECKED]
        return bool(missing) and self.refusals == missing and not (self.refused or self.form_errors)

    @property
    def shows_refusal(self) -> bool:
        """Whether the page lists the reasons against a start next to the button."""
        return self.is_blocked and not (self.waits_for_preflight or self.is_unchecked)

    @property
    def branch_error(self) -> str:
        return self.error_at("branch")

    @property
    def entry_point_error(self) -> str:
        return self.error_at("entry-point")

    @property
    def event_error(self) -> str:
        return self.error_at("checkpoint-events")

    def error_at(self, html_id: str) -> str:
        """The first error at this field; empty if there is none."""
        return next((error.message for error in self.errors if error.html_id == html_id), "")

    def start(self) -> Started | None:
        """Start the launch. Return what was started, or None if it was refused, as the page then shows."""
        if self.form_errors:
            return None
        try:
            return self.launch()
        except LaunchRefused as refused:
            if isinstance(refused, AlreadyStarted):
                self.key = uuid4()
            again = [one.message for one in refused.refusals if one.code == Code.SEND_AGAIN]
            self.notice = " ".join(again)
            self.refused = [] if again else refused.refusals
            return None


def errors_of(form: Form) -> Iterator[FieldError]:
    """Yield the errors of the form's fields."""
    for name, messages in form.errors.items():
        for message in messages:
            yield FieldError(form[name].id_for_label, str(form[name].label), str(message))


def preflight_for(request: CheckpointRequest, form: PreflightForm) -> PreflightCheck | None:
    """The preflight check of this request, after starting it or accepting its effects if the form asks."""
    return preflight_of(
        request,
        may_start=form.is_bound,
        again=form.starts_check,
        accepted_effects=form.accepted_effects,
    )


# The common parts of the pages for launches from a checkpoint.


# Reading a larger checkpoint only for the cost would take too long.
MAX_BYTES_FOR_COST = 4 * 1024 * 1024


@dataclass(kw_only=True)
class CheckpointPage(LaunchPage[FromCheckpoint, Started]):
    """The page of a launch from a checkpoint."""

    @property
    def request(self) -> CheckpointRequest:
        """The request that the page shows."""
        return self.preview.request

    @property
    def checkpoint(self) -> Checkpoint:
        return self.request.checkpoint

    @cached_property
    def code(self) -> CodeChanges | None:
        """What has changed in the project's code since the checkpoint was written."""
        return code_changes(self.checkpoint, self.request.project)

    @property
    def code_error(self) -> str:
        return self.error_at("code")


@dataclass(frozen=True)
class StartingPoint:
    """The checkpoint from which something starts, and its project."""

    checkpoint: Checkpoint
    contents: Contents
    project: Project | None

    @property
    def folder(self) -> Path | None:
        return Path(self.project.folder) if self.project else None

    @property
    def entry_points(self) -> list[str]:
        return list(self.project.entry_points) if self.project else []

    def entry_point(self, data: Any) -> str:
        """The chosen entry point; the proposed one if ``data`` is None."""
        return EntryPointForm(data, self.entry_points, self.proposed).chosen_entry_point

    @cached_property
    def proposed(self) -> dict[str, str]:
        """The proposed entry point, by field."""
        return {"entry_point": matching_entry_point(self.contents, self.project)}

    def schema(self, entry_point: str) -> Schema:
        """The schema of a run, from a stored preflight check with this entry point, if there is one."""
        return schema_at(self.checkpoint, self.contents, self.project, entry_point)

    def options(self, models: ModelsForm, data: Any, schema: Schema = NO_SCHEMA) -> OptionParts:
        """The option parts of the page, in their initial state if ``data`` is None."""
        contents = self.contents
        kind = kind_of(engine_of(contents), contents.kind)
        events = contents.checkpoint_events
        part = checkpoints_part(engine_of(contents), self.project, contents.kind, events, data)
        settings = run_settings_part(kind, schema, data)
        return OptionParts(models, part, StartTimeForm(data), LimitsForm(data), settings, ToolsForm(data))

    def request_values(
        self, options: OptionParts, preflight: PreflightForm, submission: Submission
    ) -> dict[str, Any]:
        """The fields that every request from a checkpoint has."""
        return {
            "checkpoint": self.checkpoint,
            "contents": self.contents,
            "furthest": furthest(self.checkpoint),
            "project": self.project,
            "folder": self.folder,
            **options.request_values,
            "answers": preflight.answers,
            "requested_by": submission.user,
            "seen_plan": None if submission.data is None else submission.data.get("shown"),
        }


def source_at(checkpoint: Checkpoint, on: Location | None = None) -> StartingPoint:
    """The checkpoint with its contents and the project of its location, or that of ``on``."""
    return StartingPoint(checkpoint, stored_contents(checkpoint), (on or checkpoint.location).project)


def furthest(checkpoint: Checkpoint) -> Contents | None:
    """The contents of the run's furthest checkpoint; None if it is this one."""
    row = furthest_of([checkpoint]).get(checkpoint.pk)
    return stored_contents(row) if row else None


def furthest_of(checkpoints: Sequence[Checkpoint]) -> dict[int, Checkpoint]:
    """The furthest checkpoint of each one's run by its key, if that is another one."""
    rows = Checkpoint.objects.filter(run=OuterRef("pk"), size__lte=MAX_BYTES_FOR_COST)
    rows = rows.exclude(state=Checkpoint.State.NO_COPY).order_by("-units_done", "-event_count")
    runs = Run.objects.filter(pk__in=[checkpoint.run_id for checkpoint in checkpoints]).order_by()
    pks = runs.annotate(furthest=Subquery(rows.values("pk")[:1])).values("furthest")
    found = {row.run_id: row for row in Checkpoint.objects.filter(pk__in=pks).select_related("location")}
    of_runs = ((checkpoint.pk, found.get(checkpoint.run_id)) for checkpoint in checkpoints)
    return {pk: row for pk, row in of_runs if row is not None and row.pk != pk}
