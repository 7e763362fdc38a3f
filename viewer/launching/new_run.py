"""Starts new runs of a project's entry points, and finds earlier ones from which a form is filled."""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of, engine_with
from viewer.engines.entry_points import RootKind
from viewer.engines.runner_protocol import LocationTarget
from viewer.host_requests import (
    CheckWriteTarget,
    FindWriteTarget,
    JobRefused,
    MatchEntryPoint,
    OpenWriteTarget,
    UnknownLocation,
    WriteTarget,
    ask,
)
from viewer.launching.options import agent_roles
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    LaunchRefused,
    Refusal,
    code_refusals,
    quota_refusals,
    settings_refusals,
    text_refusals,
)
from viewer.launching.requests import NewRunRequest
from viewer.launching.start import earlier_job, start_run
from viewer.models import Host, Job, Location, Project, Right, Run
from viewer.models.roles import present_access
from viewer.records.bodies import first_contents
from viewer.records.runner_requests import request_for_run, store_kind_of

# Earlier runs of an entry point, from which a new run's form is filled.


# How many of a location's newest runs are searched.
MAX_RUNS = 50


def entry_point_of_run(project: Project, run: Run) -> str:
    """The run's entry point, from its jobs, else from its name; empty if unclear."""
    jobs = Job.objects.filter(run=run, project=project).order_by("created_at")
    for entry_point in jobs.values_list("request__entry_point", flat=True):
        if entry_point in project.entry_points:
            return str(entry_point)
    return _matching(project, run)


def _matching(project: Project, run: Run) -> str:
    """The entry point that makes what has the kind and the name of this run; empty if unclear."""
    engine = engine_of(run.location).name
    request = MatchEntryPoint(engine, project.folder, project.entry_points, run.entity, run.name)
    return ask(request, host=project.host_id)


def earlier_run(location: Location, entry_point: str, entity: str) -> Run | None:
    """The newest run of this entry point at the location; None if there is none."""
    project = location.project
    if project is None:
        return None
    names: dict[str, str] = {}
    runs = location.runs.filter(entity=entity).select_related("location")[:MAX_RUNS]
    started = Job.objects.filter(project=project, run__in=[run.pk for run in runs])
    recorded = dict(started.order_by("-created_at").values_list("run_id", "request__entry_point"))
    for run in runs:
        known = recorded.get(run.pk)
        if not known and run.name not in names:
            names[run.name] = _matching(project, run)
        if (known or names.get(run.name)) == entry_point:
            return run
    return None


def kickoff_inputs(run: Run, entity: str) -> dict[str, Any]:
    """The kickoff inputs in the run's first checkpoint, typed and without secrets."""
    contents = first_contents(run)
    if contents is None:
        return {}
    return dict(engine_of(contents).kickoff_inputs(contents, entity))


def agents_roles(run: Run) -> list[str]:
    """The roles of the run's agents, with its inputs inserted."""
    contents = first_contents(run)
    return agent_roles(contents) if contents else []


# Starts new runs of a project's entry points.


@dataclass(slots=True, kw_only=True)
class NewRunPreview(CheckedLaunch):
    """``target`` is where the run writes; None if nothing may be written there."""

    request: NewRunRequest
    target: WriteTarget | None = None

    @property
    def needs_preflight(self) -> bool:
        """Whether a preflight check is useful: the project can run, and the target is writable."""
        final = (Code.PROJECT, Code.TARGET)
        return self.away is None and not any(one.code in final for one in self.checks)


def preview_new_run(request: NewRunRequest) -> NewRunPreview:
    """Where the run would write, and the reasons why it cannot start."""
    preview = NewRunPreview(request=request)
    kind = request.kind
    preview.checks = [*code_refusals(request), *quota_refusals(request)]
    preview.checks += settings_refusals(request.settings, kind)
    preview.checks += text_refusals(request.inputs)
    if kind.prompt and not request.inputs.get(kind.prompt):
        message = _("Enter a prompt for the %(kind)s.") % {"kind": _(kind.label)}
        preview.checks.append(Refusal(Code.INPUTS, message, "input-0", kind.prompt))
    try:
        if away := preview.away:
            preview.target = _unchecked_target(request, away)
        elif isinstance(request.target, Location):
            if request.project:
                preview.target = ask(CheckWriteTarget(request.project.pk, request.target.pk))
        elif request.project:
            require_new_locations()
            anywhere = request.roots is None
            preview.target = ask(FindWriteTarget(request.project.pk, str(request.target), anywhere))
    except UnknownLocation as error:
        preview.checks.append(Refusal(Code.TARGET, error, "new_location", _("New location")))
    if preview.target and request.project:
        preview.checks += _target_refusals(preview.target, kind, request.project)
    return preview


def require_new_locations() -> None:
    """Raise UnknownLocation if the sender of the present request may not add locations."""
    access = present_access()
    if access and access.everywhere < Right.LOCATIONS.level:
        raise UnknownLocation(_("Only an admin of all locations can add one. Choose a location."))


def _unchecked_target(request: NewRunRequest, away: Host) -> WriteTarget:
    """Return a write target that its host, which is away, checks at the start. Raises UnknownLocation."""
    known = request.target
    if (
        not isinstance(known, Location)
        or known.host_id != away.pk
        or known.replaced_by
        or not known.takes_runs
    ):
        raise UnknownLocation(
            _("%(host)s does not answer, so it cannot check this path. Choose one of its locations.")
            % {"host": away.name}
        )
    return WriteTarget(known.path, known.store_kind)


def _target_refusals(target: WriteTarget, kind: RootKind, project: Project) -> list[Refusal]:
    """Why runs of this kind cannot write there, such as to the store of another engine."""
    message = ""
    known = Location.objects.filter(host=project.host_id, path=target.path)
    if known.exclude(engine=engine_with(kind)).exists():
        message = _("This location has checkpoints of another engine.")
    elif target.store_kind == Location.StoreKind.JSON and not kind.writes_folders:
        message = _("A %(kind)s writes to a SQLite file: name one that ends with .db.") % {
            "kind": _(kind.label)
        }
    return [Refusal(Code.TARGET, message, "new_location", _("New location"))] if message else []


def new_run(preview: NewRunPreview) -> Job:
    """Queue the run, once per request key. Creates a missing location. Raises LaunchRefused."""
    request, project, target = preview.request, preview.request.project, preview.target
    if project is None or target is None:
        raise LaunchRefused(preview.refusals)
    # A new run loses nothing, so a checked one has nothing to accept.
    options = request.run_options if preview.findings else preview.options
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
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    try:
        if preview.away and isinstance(request.target, Location):
            location = request.target
        else:
            opened = ask(OpenWriteTarget(project.pk, target, engine_with(request.kind)))
            location = Location.objects.get(pk=opened)
        return start_run(location, project, job_request, request.requested_by, request.key, request.options)
    except UnknownLocation as refused:
        raise LaunchRefused([Refusal(Code.TARGET, refused)]) from refused
    except JobRefused as refused:
        raise LaunchRefused([Refusal(Code.START, refused)]) from refused
