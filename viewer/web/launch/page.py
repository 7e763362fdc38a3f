"""The page of a fork or resume."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from django import forms
from django.forms import Form
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import Editable, Edits, Schema
from viewer.engines.protocol import kind_of
from viewer.launching import refusals, requests
from viewer.launching.edits import added_value
from viewer.launching.options import NEW_THREAD_NAME, PUBLISH_INTO, SCRATCH
from viewer.launching.preflight import preflight_of
from viewer.launching.preview import CodeChanges, LaunchPreview, code_changes, other_locations, preview_launch
from viewer.launching.start import (
    NEW_THREAD,
    PublishPreview,
    preview_publish,
    proposed_thread,
    publish,
    start,
)
from viewer.launching.sweep import SweepPreview
from viewer.models import Checkpoint, Job, Location, PreflightCheck
from viewer.web.fields import ChoiceField, OptionField, valid_values
from viewer.web.launch.conversations import answers_form, conversation_parts, without_conversations
from viewer.web.launch.edits import (
    ForkForm,
    ModesForm,
    OutputsForm,
    PreflightForm,
    StateForm,
    ValuesForm,
    ValuesPart,
    output_views,
    values_part,
)
from viewer.web.launch.options import models_form
from viewer.web.launch.prefilled import Retry, StartingPoint, Submission, prefilled, retry_of_fork, source_at

# What a page previews, and what its form starts.
Preview = TypeVar("Preview", bound=refusals.CheckedLaunch | None)
FromCheckpoint = TypeVar("FromCheckpoint", bound=LaunchPreview | SweepPreview)
Started = TypeVar("Started")


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
    refused: list[refusals.Refusal] = field(default_factory=list)

    @property
    def forms(self) -> Sequence[Form]:
        """The forms, in the order of the page."""
        raise NotImplementedError

    def launch(self) -> Started:
        """Start the request. Raises LaunchRefused."""
        raise NotImplementedError

    @property
    def findings(self) -> refusals.Findings | None:
        preview: refusals.CheckedLaunch | None = self.preview
        return preview.findings if preview else None

    @property
    def refusals(self) -> list[refusals.Refusal]:
        """Each reason once, including those of an attempted start."""
        preview: refusals.CheckedLaunch | None = self.preview
        found = preview.refusals if preview else []
        each = {(one.code, one.message, one.field): one for one in [*found, *self.refused]}
        return list(each.values())

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
        missing = [one for one in self.refusals if one.field == refusals.UNCHECKED]
        return bool(missing) and self.refusals == missing and not (self.refused or self.form_errors)

    @property
    def shows_refusal(self) -> bool:
        """Whether the page lists the reasons against a start next to the button."""
        return self.is_blocked and not (self.waits_for_preflight or self.is_unchecked)

    @property
    def error_at(self) -> dict[str, str]:
        """The first error of each field, by the field's id with underscores."""
        return {error.html_id.replace("-", "_"): error.message for error in reversed(self.errors)}

    def start(self) -> Started | None:
        """Start the launch. Return what was started, or None if it was refused, as the page then shows."""
        if self.form_errors:
            return None
        try:
            return self.launch()
        except refusals.LaunchRefused as refused:
            if isinstance(refused, refusals.AlreadyStarted):
                self.key = uuid4()
            again = [one.message for one in refused.refusals if one.code == refusals.Code.SEND_AGAIN]
            self.notice = " ".join(again)
            self.refused = [] if again else refused.refusals
            return None


def errors_of(form: Form) -> Iterator[FieldError]:
    """Yield the errors of the form's fields."""
    for name, messages in form.errors.items():
        for message in messages:
            yield FieldError(form[name].id_for_label, str(form[name].label), str(message))


def preflight_for(request: requests.CheckpointRequest, form: PreflightForm) -> PreflightCheck | None:
    """The preflight check of this request, after starting it or accepting its effects if the form asks."""
    return preflight_of(
        request,
        may_start=form.is_bound,
        again=form.starts_check,
        accepted_effects=form.accepted_effects,
    )


# The common parts of the pages for launches from a checkpoint.


@dataclass(kw_only=True)
class CheckpointPage(LaunchPage[FromCheckpoint, Started]):
    """The page of a launch from a checkpoint."""

    @property
    def request(self) -> requests.CheckpointRequest:
        """The request that the page shows."""
        return self.preview.request

    @property
    def checkpoint(self) -> Checkpoint:
        return self.request.checkpoint

    @cached_property
    def code(self) -> CodeChanges | None:
        """What has changed in the project's code since the checkpoint was written."""
        return code_changes(self.checkpoint, self.request.project)


# How many locations of other hosts have a link.
MAX_OTHERS = 20


class ForkParts:
    """The parts of the page, in their initial state if ``data`` is None. A resume has no edits.

    ``inputs``, ``state`` and ``answers`` are None if there are none.
    """

    def __init__(
        self, type_: type[requests.ForkRequest], source: StartingPoint, data: Any, submission: Submission
    ) -> None:
        contents, is_fork = source.contents, type_.kind == Job.Kind.FORK
        engine, edits = engine_of(contents), data if is_fork else None
        kind, edited = kind_of(engine, contents.kind), engine.editable(contents)
        schema = source.schema(source.entry_point(data))
        # What is known of the project's code, and whether more is known than when the page was shown.
        self.schema_digest = schema.digest
        self.is_new_schema = data is not None and data.get("schema", schema.digest) != schema.digest
        # An edited value replaces the stored one where the engine would add it, unless its mode differs.
        self.replaces = kind.adds_to_state

        as_nodes = edited.as_nodes and schema.units
        self.target = ForkForm(data, source.entry_points, source.proposed, as_nodes, kind)
        if not is_fork:
            self.target.leave_only_entry_point()
        # A resume continues the thread itself, so that nothing is chosen for a person.
        must_choose = not is_fork and submission.data is not None
        self.answers = answers_form(data, edited, must_choose, submission.chosen)
        self.inputs: ValuesPart | None = None
        if edited.inputs is not None:
            form = ValuesForm(edits, "input", edited.inputs, can_add=kind.can_add_inputs)
            self.inputs = values_part(form)
        self.modes = modes_form(edits, edited, schema, kind)
        self.state: ValuesPart | None = None
        if edited.state is not None:
            # Entries that have no value and are not edited as a conversation.
            known = {*edited.state, *edited.opaque}
            entries = {name: entry for name, entry in schema.entries.items() if name not in known}
            self.state = values_part(StateForm(edits, without_conversations(edited), entries), self.modes)
        self.conversations = conversation_parts(edits, contents, edited, self.modes)
        self.outputs_form = OutputsForm(edits, edited.outputs)
        self.outputs = output_views(self.outputs_form, edited.outputs)
        self.options = source.options(models_form(contents, edits), data, schema)

    @property
    def values(self) -> list[ValuesPart]:
        """The inputs and the state; either may be missing."""
        return [part for part in (self.inputs, self.state) if part]

    @property
    def forms(self) -> Sequence[Form]:
        """The forms, in the order of the page."""
        return (
            *([self.answers] if self.answers else []),
            *(part.form for part in self.values),
            *(form for part in self.conversations for form in part.forms.forms),
            self.modes,
            self.outputs_form,
            *self.options.forms,
            self.target,
        )

    @property
    def edits(self) -> Edits:
        """The values that a person changed."""
        state = self.edited_state
        return Edits(
            inputs=self.inputs.form.changes if self.inputs else {},
            outputs=self.outputs_form.changes,
            state=state or None,
            again=self.target.units_again,
            keep=self.target.units_kept,
            replace=frozenset(name for name in state if self.replaces and not self.modes.adds(name)),
            as_node=self.target.chosen_node,
            answers=self.answers.answers if self.answers else {},
        )

    @property
    def edited_state(self) -> dict[str, Any]:
        """The value for each edited entry of the state: the new value, or the one for its reducer."""
        typed = self.state.form.changes if self.state else {}
        stored = {view.value.name: view.value.stored for view in self.state.fields} if self.state else {}
        state = {
            name: added_value(stored.get(name), value) if self.modes.adds(name) else value
            for name, value in typed.items()
        }
        return state | {part.name: part.value for part in self.conversations if part.value is not None}

    def id_of(self, part: str) -> str:
        """The id of the field for a part that a link names (``editable_parts``); empty if it has none."""
        group, _colon, name = part.partition(":")
        fields = {"inputs": self.inputs, "state": self.state}.get(group)
        found = {view.value.name: view.html_id for view in fields.fields} if fields else {}
        if group == "outputs":
            found = {view.unit: view.html_id for view in self.outputs}
        if group == "state":
            found |= {part.name: part.html_id for part in self.conversations}
        for conversation in self.conversations if group == "messages" else ():
            known = [one.form.message.position for one in conversation.messages if one.form.message]
            ids = (message.html_id for message in conversation.messages)
            found |= {f"{conversation.name}:{at}": one for at, one in zip(known, ids, strict=False)}
        return found.get(name, "")

    @property
    def changed_ids(self) -> list[str]:
        """The ids of the fields with an edit."""
        values = [html_id for part in self.values for html_id in part.changed_ids]
        values += [html_id for part in self.conversations for html_id in part.changed_ids]
        return values + [output.html_id for output in self.outputs if output.changed]


@dataclass(kw_only=True)
class ForkPage(CheckpointPage[LaunchPreview, Job]):
    """The page with the preview of its request."""

    parts: ForkParts
    # The id of the field at which the form opens, if a link named one.
    opened_id: str = ""

    @property
    def forms(self) -> Sequence[Form]:
        return self.parts.forms

    @property
    def kind(self) -> Job.Kind:
        return self.preview.request.kind

    @property
    def is_fork(self) -> bool:
        return self.kind == Job.Kind.FORK

    @property
    def is_stored(self) -> bool:
        """Whether it starts from the stored copy because the checkpoint was pruned."""
        return self.checkpoint.state == Checkpoint.State.PRUNED

    @property
    def waits_for_preflight(self) -> bool:
        others = self.preview.checks or self.refused or self.form_errors
        return bool(self.findings and self.findings.is_under_way and not self.can_start and not others)

    @property
    def sent_answer(self) -> str:
        """The answer that a resume sends, for its button; empty if it sends none or several."""
        views = self.parts.answers.views if self.parts.answers and not self.is_fork else []
        return views[0].given if len(views) == 1 and self.preview.request.edits.answers else ""

    @property
    def shares_its_branch(self) -> bool:
        """Whether resuming gives this branch a second continuation."""
        recorded = self.checkpoint.recorded_branch
        return not self.is_fork and self.checkpoint.children.filter(recorded_branch=recorded).exists()

    @cached_property
    def all_others(self) -> list[Location]:
        """The locations of other hosts on which it can be forked."""
        return other_locations(self.checkpoint) if self.is_fork else []

    @property
    def others(self) -> list[Location]:
        """The locations of other hosts that have a link."""
        return self.all_others[:MAX_OTHERS]

    @property
    def others_left_out(self) -> int:
        return len(self.all_others) - len(self.others)

    @property
    def accepts_code(self) -> bool:
        return self.request.accepted.code == self.preview.other_host.code

    def launch(self) -> Job:
        return start(self.preview)


def fork_page(
    type_: type[requests.ForkRequest],
    checkpoint: Checkpoint,
    submission: Submission,
    retried: Job | None,
    on: Location | None = None,
) -> ForkPage:
    """The page in its initial state, or with the submitted values. ``on`` is as in a ``ForkRequest``."""
    source, data = source_at(checkpoint, on), submission.data
    retry = _retry(type_, source, submission, retried) if retried else None
    initial = retry.data if retry else _prefilled(type_, source, submission)
    parts = ForkParts(type_, source, initial if data is None else data, submission)
    preflight = PreflightForm(data)
    request = type_(
        **source.request_values(parts.options, preflight, submission),
        entry_point=parts.target.chosen_entry_point,
        branch=parts.target.branch_name if type_.kind == Job.Kind.FORK else checkpoint.recorded_branch,
        edits=parts.edits,
        into=parts.target.target,
        on=on,
        again_stale=parts.target.runs_stale_again,
        uses_recorded_code=parts.target.uses_recorded_code,
        accepted=preflight.accepted_by_person,
        key=submission.key,
    )
    if not request.branch:
        request = replace(request, branch=requests.fork_branch(request))
    preview = preview_launch(request)
    if preview.needs_preflight and not parts.target.errors:
        preview.add_findings(preflight_for(request, preflight))
    opened = parts.id_of(submission.opened) if submission.opened else ""
    return ForkPage(**submission.page_values, parts=parts, preview=preview, retry=retry, opened_id=opened)


def _prefilled(
    type_: type[requests.ForkRequest], source: StartingPoint, submission: Submission
) -> MultiValueDict[str, str] | None:
    is_link = submission.data is None and (submission.call or submission.value)
    if not is_link or type_.kind != Job.Kind.FORK:
        return None
    first = ForkParts(type_, source, None, submission)
    return prefilled(source, submission, [part.form for part in first.values], first.outputs_form)


def _retry(
    type_: type[requests.ForkRequest], source: StartingPoint, submission: Submission, job: Job
) -> Retry:
    first, taken = ForkParts(type_, source, None, submission), source.checkpoint.location.taken_branches
    values = [*(part.form for part in first.values), *first.options.values_forms]
    conversations = {part.name for part in first.conversations}
    return retry_of_fork(job, values, first.outputs_form, first.options.models, taken, conversations)


def modes_form(data: Any, edited: Editable, schema: Schema, kind: RootKind) -> ModesForm:
    """A choice for each entry of the state that has a reducer, or may have one."""
    reducers: dict[str, str | None] = {}
    names = dict.fromkeys((*(edited.state or {}), *schema.entries))
    for name in names if kind.adds_to_state else ():
        entry = schema.entries.get(name)
        if entry is None and isinstance((edited.state or {}).get(name), list):
            # Not known from the code yet: most lists have a reducer.
            reducers[name] = None
        elif entry is not None and entry.reducer:
            reducers[name] = entry.reducer
    by_id = [name for name in edited.conversations if name in reducers and schema.merges_by_id(name)]
    return ModesForm(data, reducers, by_id)


class PublishForm(forms.Form):
    """Where a fork is published, under which name, and that a person agreed to it."""

    into = ChoiceField(PUBLISH_INTO, "into")
    thread = OptionField(NEW_THREAD_NAME, "thread")
    waits_for_host = forms.BooleanField(required=False)
    agreed = forms.CharField(
        label=_("What is written"),
        error_messages={"required": _("Confirm what is written, and press the button again.")},
    )


@dataclass(kw_only=True)
class PublishPage(LaunchPage[PublishPreview, Job]):
    """The page with the preview of its request."""

    form: PublishForm
    preview: PublishPreview

    @property
    def forms(self) -> Sequence[forms.Form]:
        return (self.form,)

    @property
    def request(self) -> requests.PublishRequest:
        return self.preview.request

    @property
    def targets(self) -> list[tuple[str, str]]:
        """The threads that it can be written to, each with its label."""
        return [one for one in self.preview.kind.fork_targets if one[0] != SCRATCH]

    @property
    def is_same_run(self) -> bool:
        """Whether the thread that was forked gets the checkpoints."""
        return self.preview.key == self.request.checkpoint.run.key

    def launch(self) -> Job:
        return publish(self.preview)


def publish_page(checkpoint: Checkpoint, submission: Submission, into: str) -> PublishPage:
    """The page in its initial state for the target that a link names, or with the submitted values."""
    form = PublishForm(submission.data)
    values = {"into": into, "thread": proposed_thread(checkpoint)}
    if form.is_bound:
        values = valid_values(form)
    request = requests.PublishRequest(
        checkpoint=checkpoint,
        into=values.get("into") or NEW_THREAD,
        thread=values.get("thread") or "",
        project=checkpoint.location.project,
        options=requests.LaunchOptions(waits_for_host=bool(values.get("waits_for_host"))),
        key=submission.key,
        requested_by=submission.user,
    )
    return PublishPage(**submission.page_values, form=form, preview=preview_publish(request))
