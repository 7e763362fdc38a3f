"""The forms and the page of a new run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.forms import Form
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.engines import engine_of
from viewer.engines.entry_points import InputName, RootKind
from viewer.engines.plan import MISSING, Missing
from viewer.engines.protocol import kind_of
from viewer.host_requests import ListEntryPointKinds, ListInputNames, ask
from viewer.launching.edits import ValueKind
from viewer.launching.new_run import (
    NewRunPreview,
    agents_roles,
    earlier_run,
    entry_point_of_run,
    kickoff_inputs,
    new_run,
    preview_new_run,
)
from viewer.launching.preflight import preflight_of_new_run, schema_of_new_run
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import NewRunRequest
from viewer.models import Job, Location, Project, Run
from viewer.redaction import MARKER
from viewer.web.fields import KINDS, Typed, ValueField, valid_values
from viewer.web.launch import options
from viewer.web.launch.edits import PreflightForm, ValuesForm, values_part
from viewer.web.launch.page import LaunchPage
from viewer.web.launch.prefilled import Submission, retry_of_run

# The forms of a new run: its inputs and its write target.


class InputField(ValueField):
    """An input of a new run. An emptied field gives no input: it is cleaned to MISSING."""

    def clean(self, value: Typed) -> Any:
        text = self.stored_text if value.text is None else value.text
        if self.kind is not ValueKind.TEXT and not (text.strip() or value.json.strip()):
            return MISSING
        cleaned = super().clean(value)
        if self.has_redacted_part and cleaned is self.stored:
            message = _("A part of it is redacted: replace the whole value, or empty the field.")
            raise forms.ValidationError(message)
        return cleaned


class InputsForm(ValuesForm):
    """The inputs that the source ``names``, and those of an ``earlier`` run of the same."""

    def __init__(
        self, data: Any, kind: RootKind, names: Sequence[InputName], earlier: Mapping[str, Any]
    ) -> None:
        self.earlier = earlier
        kinds = {one.name: KINDS[one.kind] for one in names if one.kind}
        # Where the source names none, they are added by name.
        can_add = kind.can_add_inputs or (kind.has_state and not names)
        super().__init__(data, "input", _initial(kind, names, earlier), can_add=can_add, kinds=kinds)

    def value_field(self, number: int, name: str, stored: Any) -> ValueField:
        return InputField(self.group, number, name, stored, self.kinds.get(name))

    @property
    def given(self) -> dict[str, Any]:
        """The inputs, with their types. Defaults of the source are left out."""
        values = valid_values(self)
        given = {
            field.name: values.get(name, field.stored)
            for name, field in self.value_fields.items()
            if self._is_given(name, field)
        }
        return {**given, **values.get(self.more_name, {})}

    @property
    def not_given(self) -> list[str]:
        """The names of inputs that the source requires and that are empty."""
        fields = self.value_fields.items()
        return [field.name for name, field in fields if field.is_missing and not self._is_given(name, field)]

    def _is_given(self, name: str, field: ValueField) -> bool:
        value = valid_values(self).get(name, field.stored)
        return value is not MISSING and (value is not field.stored or field.name in self.earlier)


def _initial(
    kind: RootKind, names: Sequence[InputName], earlier: Mapping[str, Any]
) -> dict[str, Any | Missing]:
    """The initial value of each field: the earlier run's, else the source's default.

    A redacted value is missing, so it has to be typed.
    """
    if kind.prompt:
        return {kind.prompt: earlier.get(kind.prompt, MISSING)}
    defaults = {one.name: one.default if one.has_default else MISSING for one in names}
    found = {**defaults, **earlier}
    return {name: MISSING if value == MARKER else value for name, value in found.items()}


class WriteTargetForm(forms.Form):
    """The location of ``project`` to which a run writes, or in ``new_location`` the path of a new one.

    Without either, the run writes to ``location``.
    """

    location = forms.CharField(
        required=False,
        initial="",
        label=gettext_lazy("Writes to"),
        widget=forms.Select(attrs={"id": "location"}),
    )
    new_location = forms.CharField(
        required=False,
        initial="",
        label=gettext_lazy("New location"),
        widget=forms.TextInput(attrs={"id": "new_location"}),
    )

    def __init__(self, data: Any, project: Project, location: Location) -> None:
        super().__init__(data)
        self.project, self.default = project, location

    def clean(self) -> dict[str, Any]:
        if not self.cleaned_data.get("new_location"):
            self.cleaned_data["location"] = self._chosen(self.cleaned_data.get("location", ""))
        return self.cleaned_data

    @property
    def target(self) -> Location | str | None:
        """The typed path, else the chosen location; None if the chosen one is not the project's."""
        if not self.is_bound:
            return self.default
        values = valid_values(self)
        return None if self.errors else values["new_location"] or values["location"]

    def _chosen(self, uid: str) -> Location | None:
        try:
            found = self.project.locations.filter(uid=UUID(uid or str(self.default.uid))).first()
        except ValueError:
            self.add_error("new_location", _("This location does not exist. Choose another one."))
            return None
        if found is None:
            error = _("This location no longer belongs to the project. Choose another one.")
            self.add_error("new_location", error)
        return found


# The page of a new run.


@dataclass(frozen=True, slots=True)
class Chosen:
    """The entry point of the new run. ``again`` is the run to repeat, ``found`` an earlier run of it.

    ``kinds`` maps the project's entry points to their root kinds; empty if its source does not say.
    """

    kinds: Mapping[str, str]
    entry_point: str
    entity: str
    again: Run | None
    found: Run | None
    retried: Job | None


class NewRunParts:
    """The parts of the page, in their initial state if ``data`` is None."""

    def __init__(self, location: Location, project: Project, chosen: Chosen, data: Any) -> None:
        entity, engine = chosen.entity, engine_of(location)
        kind = kind_of(engine, entity)
        found = chosen.found if chosen.found and chosen.found.entity == entity else None
        names: Sequence[InputName] = ()
        if chosen.entry_point:
            names = ask(
                ListInputNames(engine.name, project.folder, chosen.entry_point, entity), host=project.host_id
            )
        self.inputs_form = InputsForm(data, kind, names, kickoff_inputs(found, entity) if found else {})
        self.inputs = values_part(self.inputs_form)
        models = options.no_models_form()
        if kind.can_warm_cache:
            models = options.new_models_form(agents_roles(found) if found else [], data)
        self.options = options.OptionParts(
            models,
            options.checkpoints_form(engine, project, entity, (), data),
            options.StartTimeForm(data),
            options.LimitsForm(data),
            options.run_settings_part(kind, schema_of_new_run(kind, project, chosen.entry_point), data),
        )
        self.target = WriteTargetForm(data, project, location)


@dataclass(kw_only=True)
class NewRunPage(LaunchPage[NewRunPreview | None, Job]):
    """``preview`` is None without an entry point, and if the chosen location is not the project's."""

    location: Location
    project: Project
    chosen: Chosen
    parts: NewRunParts

    @property
    def forms(self) -> Sequence[Form]:
        return (self.parts.inputs_form, *self.parts.options.forms, self.parts.target)

    @property
    def entry_point(self) -> str:
        return self.chosen.entry_point

    @property
    def entity(self) -> str:
        return self.chosen.entity

    @property
    def again(self) -> Run | None:
        return self.chosen.again

    @property
    def is_blocked(self) -> bool:
        return bool(self.against)

    def start(self) -> Job | None:
        return super().start() if self.preview else None

    def launch(self) -> Job:
        assert self.preview is not None, "The page has a request."
        return new_run(self.preview)


def new_run_page(location: Location, project: Project, chosen: Chosen, submission: Submission) -> NewRunPage:
    """The page in its initial state, or with the submitted values."""
    parts, retry = NewRunParts(location, project, chosen, submission.data), None
    if chosen.retried:
        retry = retry_of_run(chosen.retried, parts.inputs_form, parts.options)
        if submission.data is None:
            parts = NewRunParts(location, project, chosen, retry.data)
    preview = _preview(location, project, chosen, parts, submission)
    if preview and parts.inputs_form.is_bound:
        _show_refused_inputs(parts.inputs_form, preview.checks)
    return NewRunPage(
        **submission.page_values,
        location=location,
        project=project,
        chosen=chosen,
        parts=parts,
        preview=preview,
        retry=retry,
    )


def _preview(
    location: Location, project: Project, chosen: Chosen, parts: NewRunParts, submission: Submission
) -> NewRunPreview | None:
    target, engine, preflight = parts.target.target, engine_of(location), PreflightForm(submission.data)
    if not chosen.entry_point or target is None:
        return None
    request = NewRunRequest(
        project=project,
        entry_point=chosen.entry_point,
        kind=kind_of(engine, chosen.entity),
        name=chosen.found.name if chosen.found else engine.entry_point_title(chosen.entry_point),
        inputs=parts.inputs_form.given,
        target=target,
        roots=settings.CHECKPOINT_ROOTS,
        key=submission.key,
        requested_by=submission.user,
        **parts.options.request_values,
    )
    preview = preview_new_run(request)
    preview.add_findings(
        preflight_of_new_run(preview, may_start=preflight.is_bound, again=preflight.starts_check)
    )
    return preview


def _show_refused_inputs(form: InputsForm, refusals: Sequence[Refusal]) -> None:
    """Add the error of a missing prompt to its field."""
    name = next(iter(form.value_fields), "")
    for one in refusals:
        if one.code == Code.INPUTS and name not in form.errors:
            form.add_error(name, one.message)


def chosen_for(
    location: Location,
    project: Project,
    sent: Mapping[str, str],
    repeated: Run | None,
    retried: Job | None,
) -> Chosen:
    """Return the requested entry point and entity, else those of the run that is repeated."""
    asked = ListEntryPointKinds(engine_of(location).name, project.folder, project.entry_points)
    # Their kinds are not known while the project's host is away.
    kinds = ask(asked, host=project.host_id) or dict.fromkeys(project.entry_points, "")
    entry_point = sent.get("entry_point", "") or (retried.request["entry_point"] if retried else "")
    if entry_point not in kinds:
        known = entry_point_of_run(project, repeated) if repeated else ""
        entry_point = known or (next(iter(kinds)) if len(kinds) == 1 else "")
    entity = kinds.get(entry_point) or sent.get("entity", "")
    names = [name for name, kind in engine_of(location).kinds.items() if kind.starts_new_runs]
    entity = entity if entity in names else names[0]
    found = repeated or (earlier_run(location, entry_point, entity) if entry_point else None)
    return Chosen(kinds, entry_point, entity, repeated, found, retried)
