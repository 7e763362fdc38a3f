"""Starts new runs of a project's entry points."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.engines import engine_with
from viewer.engines.root_kinds import RootKind
from viewer.importing import UnknownLocation, WriteTarget, open_write_target, write_target_at, write_target_of
from viewer.jobs.execution.starting.request import request_for_run, store_kind_of
from viewer.jobs.execution.starting.start import JobRefused
from viewer.jobs.request import LocationTarget
from viewer.launching.enqueue import start_run
from viewer.launching.preview.findings import CheckedLaunch, read_findings
from viewer.launching.refusals import (
    Code,
    LaunchRefused,
    Refusal,
    project_refusals,
    settings_refusals,
    text_refusals,
)
from viewer.launching.requests.requests import NewRunRequest
from viewer.launching.start import earlier_job, unchecked_options
from viewer.messages.translation import translate
from viewer.models import Job, Location


@dataclass(slots=True, kw_only=True)
class NewRunPreview(CheckedLaunch):
    """``target`` is where the run writes; None if nothing may be written there."""

    request: NewRunRequest
    target: WriteTarget | None = None

    @property
    def needs_preflight(self) -> bool:
        """Whether a preflight check is useful: the project can run, and the target is writable."""
        return not any(one.code in (Code.PROJECT, Code.TARGET) for one in self.checks)


def preview_new_run(request: NewRunRequest) -> NewRunPreview:
    """Where the run would write, and the reasons why it cannot start."""
    preview = NewRunPreview(request=request)
    kind = request.kind
    preview.checks = [*project_refusals(request.project), *settings_refusals(request.settings, kind)]
    preview.checks += text_refusals(request.inputs)
    if kind.prompt and not request.inputs.get(kind.prompt):
        message = _("Enter a prompt for the %(kind)s.") % {"kind": _(kind.label)}
        preview.checks.append(Refusal(Code.INPUTS, message, "input-0", kind.prompt))
    try:
        if isinstance(request.target, Location):
            preview.target = write_target_of(request.target, request.project) if request.project else None
        elif request.project:
            preview.target = write_target_at(request.target, request.project, request.roots)
    except UnknownLocation as error:
        preview.checks.append(Refusal(Code.TARGET, translate(error), "new_location", _("New location")))
    if preview.target:
        preview.checks += _target_refusals(preview.target, kind)
    if request.preflight:
        preview.findings = read_findings(request.preflight, {}, "")
    return preview


def _target_refusals(target: WriteTarget, kind: RootKind) -> list[Refusal]:
    """Why runs of this kind cannot write there, such as to the store of another engine."""
    message = ""
    if Location.objects.filter(path=target.path).exclude(engine=engine_with(kind)).exists():
        message = _("This location has checkpoints of another engine.")
    elif target.store_kind == Location.StoreKind.JSON and not kind.writes_folders:
        message = _("A %(kind)s writes to a SQLite file: name one that ends with .db.") % {
            "kind": _(kind.label)
        }
    return [Refusal(Code.TARGET, message, "new_location", _("New location"))] if message else []


def new_run(request: NewRunRequest) -> Job:
    """Queue the run, once per request key. Creates a missing location. Raises LaunchRefused."""
    preview = preview_new_run(request)
    project, target = request.project, preview.target
    if preview.refusals or project is None or target is None:
        raise LaunchRefused(preview.refusals)
    options = request.run_options
    if not request.preflight:
        options.update(unchecked_options(request))
    if request.thread:
        options["thread"] = request.thread
    job_request = request_for_run(
        LocationTarget(path=target.path, store_kind=store_kind_of(target)),
        request.kind.name,
        request.name,
        request.entry_point,
        request.inputs,
        options or None,
        request.settings,
    )
    if earlier := earlier_job(request, job_request):
        return earlier
    try:
        location = open_write_target(target, project, engine_with(request.kind))
        return start_run(location, project, job_request, request.requested_by, request.key, request.options)
    except UnknownLocation as refused:
        raise LaunchRefused([Refusal(Code.TARGET, translate(refused))]) from refused
    except JobRefused as refused:
        raise LaunchRefused([Refusal(Code.START, translate(refused))]) from refused
