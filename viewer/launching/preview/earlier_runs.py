"""Earlier runs of an entry point, from which a new run's form is filled."""

from pathlib import Path
from typing import Any

from viewer.engines import engine_of
from viewer.engines.protocol import Contents
from viewer.importing import stored_contents
from viewer.launching.requests.option_values import agent_roles
from viewer.models import Checkpoint, Job, Location, Project, Run

# How many of a location's newest runs are searched.
MAX_RUNS = 50


def entry_point_of_run(project: Project, run: Run) -> str:
    """The run's entry point, from its jobs, else from its name; empty if unclear."""
    jobs = Job.objects.filter(run=run, project=project).order_by("created_at")
    for entry_point in jobs.values_list("request__entry_point", flat=True):
        if entry_point in project.entry_points:
            return str(entry_point)
    return engine_of(run.location).entry_point_for(
        Path(project.folder), project.entry_points, run.entity, run.name
    )


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
            names[run.name] = engine_of(location).entry_point_for(
                Path(project.folder), project.entry_points, run.entity, run.name
            )
        if (known or names.get(run.name)) == entry_point:
            return run
    return None


def kickoff_inputs(run: Run, entity: str) -> dict[str, Any]:
    """The kickoff inputs in the run's first checkpoint, typed and without secrets."""
    contents = _first_contents(run)
    if contents is None:
        return {}
    return dict(engine_of(contents).kickoff_inputs(contents, entity))


def agents_roles(run: Run) -> list[str]:
    """The roles of the run's agents, with its inputs inserted."""
    contents = _first_contents(run)
    return agent_roles(contents) if contents else []


def _first_contents(run: Run) -> Contents | None:
    readable = run.checkpoints.exclude(state=Checkpoint.State.NO_COPY)
    first = readable.select_related("stored_copy", "location").order_by("row").first()
    return stored_contents(first) if first else None
