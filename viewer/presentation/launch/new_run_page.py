"""The page of a new run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.http import QueryDict
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.forms.checkpointing import EVENTS, read_checkpointing
from viewer.forms.fields import Sent, sent_texts
from viewer.forms.new_run import NewRunForm, read_new_run
from viewer.forms.preflight import CHECK
from viewer.forms.retry import Retry, retry_of_run
from viewer.launching.earlier_runs import agents_roles, earlier_run, entry_point_of_run, kickoff_inputs
from viewer.launching.findings import Findings
from viewer.launching.new_run import NewRunPreview, new_run, preview_new_run
from viewer.launching.options import LaunchOptions
from viewer.launching.preflight import preflight_of_new_run
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import NewRunRequest
from viewer.models import Job, Location, Project, Run
from viewer.presentation.launch.attempt import attempt


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the new run is of. ``again`` is the run that it repeats, ``found`` an earlier one of the same."""

    entry_point: str
    entity: str
    again: Run | None
    found: Run | None
    retried: Job | None

    @property
    def name(self) -> str:
        """The name of the earlier run; empty if there is none."""
        return self.found.name if self.found else ""


@dataclass(slots=True)
class NewRunPage:
    """``preview`` is None until an entry point is chosen, and if the chosen location is not the project's."""

    location: Location
    project: Project
    chosen: Chosen
    form: NewRunForm
    preview: NewRunPreview | None
    key: UUID
    retry: Retry | None = None
    notice: str = ""
    refused: list[Refusal] = field(default_factory=list)

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
    def found(self) -> Run | None:
        return self.chosen.found

    @property
    def look(self) -> Findings | None:
        return self.preview.findings if self.preview else None

    @property
    def against(self) -> list[str]:
        """The reasons that no field of the page can resolve."""
        refusals = [*(self.preview.refusals if self.preview else []), *self.refused]
        return list(dict.fromkeys(one.message for one in refusals if not one.field))

    def start(self) -> Job | None:
        """The job; None if it was refused, for reasons that the page then shows."""
        preview = self.preview
        if preview is None or self.form.errors:
            return None
        return attempt(self, lambda: new_run(preview.request))


def new_run_page(
    location: Location,
    project: Project,
    chosen: Chosen,
    data: QueryDict | None,
    user: AbstractBaseUser | None,
    key: UUID,
) -> NewRunPage:
    """The page as it is first shown (``data`` is None), or with what was sent."""
    sent = sent_texts(data)
    form = _form(location, project, chosen, sent, data.getlist(EVENTS) if data else [])
    retry = retry_of_run(form, chosen.retried) if chosen.retried else None
    if retry and sent is None:
        form = _form(location, project, chosen, retry.sent, retry.chosen[EVENTS])
    page = NewRunPage(location, project, chosen, form, None, key, retry)
    target = _target(form, location, project)
    if not chosen.entry_point or target is None:
        return page
    engine = engine_of(location)
    request = NewRunRequest(
        project=project,
        entry_point=chosen.entry_point,
        kind=kind_of(engine, chosen.entity),
        name=chosen.name or engine.entry_point_title(chosen.entry_point),
        inputs=form.values,
        target=target,
        roots=settings.CHECKPOINT_ROOTS,
        models=form.models.chosen,
        preload=form.models.preload,
        checkpointing=form.checkpointing.settings,
        options=LaunchOptions(form.timing.at, form.limits.values),
        key=key,
        requested_by=user,
    )
    page.preview = preview = preview_new_run(request)
    wrong = [one.message for one in preview.checks if one.code == Code.TARGET]
    form.place_error = form.place_error or " ".join(wrong)
    check = preflight_of_new_run(preview, may_start=data is not None, again=CHECK in (sent or {}))
    if check:
        page.preview = preview_new_run(replace(request, preflight=check))
    return page


def chosen_for(
    location: Location,
    project: Project,
    kinds: Mapping[str, str],
    asked: Mapping[str, str],
    repeated: Run | None,
    retried: Job | None,
) -> Chosen:
    """The entry point and entity that were asked for, else those of the run that is repeated.

    ``kinds`` maps the project's entry points to what each is; empty if its source does not say.
    """
    entry_point = asked.get("entry_point", "") or (retried.request["entry_point"] if retried else "")
    if entry_point not in kinds:
        known = entry_point_of_run(project, repeated) if repeated else ""
        entry_point = known or (next(iter(kinds)) if len(kinds) == 1 else "")
    entity = kinds.get(entry_point) or asked.get("entity", "")
    names = list(engine_of(location).kinds)
    entity = entity if entity in names else names[0]
    found = repeated or (earlier_run(location, entry_point, entity) if entry_point else None)
    return Chosen(entry_point, entity, repeated, found, retried)


def _form(location: Location, project: Project, chosen: Chosen, sent: Sent, events: list[str]) -> NewRunForm:
    entity, folder, engine = chosen.entity, Path(project.folder), engine_of(location)
    found = chosen.found if chosen.found and chosen.found.entity == entity else None
    groups = engine.checkpoint_events(Path(project.interpreter))
    return read_new_run(
        kind_of(engine, entity),
        engine.input_names(folder, chosen.entry_point, entity) if chosen.entry_point else (),
        kickoff_inputs(found, entity) if found else {},
        sent,
        read_checkpointing(engine, groups, entity, (), sent, events),
        agents_roles(found) if found else [],
    )


def _target(form: NewRunForm, location: Location, project: Project) -> Location | str | None:
    """The typed path, else the chosen location; None, with an error in the form, if there is none."""
    if form.place:
        return form.place
    try:
        found = project.locations.filter(uid=UUID(form.location or str(location.uid))).first()
    except ValueError:
        form.place_error = _("There is no such location. Choose another one.")
        return None
    if found is None:
        form.place_error = _("This location is not the project's any more. Choose another one.")
    return found
