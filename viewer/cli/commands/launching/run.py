"""``manage.py checkpoints run``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import TARGET, inputs_of, state_of
from viewer.cli.finding import imported_location, typed_path
from viewer.cli.options import (
    add_options,
    new_choices_of,
    request_values,
)
from viewer.cli.output import Output
from viewer.cli.projects import add_project_arguments, named_entry_point, project_for
from viewer.cli.starting import add_wait_argument, outcome_of, refusal
from viewer.engines import all_engines, engine_of, kinds_that
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Engine, kind_of
from viewer.host_requests import ListEntryPointKinds, ListNamedEntryPoints, ask
from viewer.launching.new_run import new_run, preview_new_run
from viewer.launching.options import (
    ACCEPT_LOSSES,
    CACHE_WARMUP,
    CHECKPOINTS,
    INPUTS,
    MODEL,
    SCHEDULE,
    SETTINGS,
    THREAD,
)
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import NewRunRequest
from viewer.models import Location, Project
from viewer.records.runner_requests import FIRST_BRANCH
from viewer.stores.addresses import is_uri, name_in

HELP = gettext_lazy("Run a project's entry point from its start, and write its checkpoints here.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location",
        type=TARGET,
        metavar="LOCATION",
        help=_("A folder, or a file that ends with .db for SQLite; created if it does not exist."),
    )
    add_options(parser, *INPUTS, THREAD, *SETTINGS, MODEL, CACHE_WARMUP, *CHECKPOINTS, *SCHEDULE)
    add_project_arguments(parser)
    add_options(parser, ACCEPT_LOSSES)
    add_wait_argument(parser)


def handle(options: Mapping[str, Any]) -> Output:
    """The job, and its outcome if it was waited for. Raises CommandError for invalid arguments."""
    named = options["location"]
    if is_uri(named):
        raise CommandError(_("Name a database as postgresql:NAME, after its name in the settings."))
    path = named if name_in(named) else str(typed_path(named).expanduser().absolute())
    if name_in(named):
        known: Location | None = imported_location(named)
    else:
        known = (
            Location.objects.here().select_related("project").filter(path=str(Path(path).resolve())).first()
        )
    # Invalid options are refused before a project is stored.
    values = request_values(options)
    project = project_for(known or Location(path=path), options)
    engine = engine_of(known) if known else _engine_for(Path(project.folder), options)
    entry_point, entity = _entry_point(engine, project, options)
    kind = kind_of(engine, entity)
    request = NewRunRequest(
        **values,
        **new_choices_of(options, kind),
        project=project,
        entry_point=entry_point,
        kind=kind,
        name=engine.entry_point_title(entry_point),
        inputs=_inputs(kind, options),
        target=known if known and not known.is_local else path,
        thread=options["thread"] or "",
    )
    try:
        job = new_run(preview_new_run(request))
    except LaunchRefused as refused:
        return refusal(FIRST_BRANCH, [], refused)
    return outcome_of(job, [], options["wait"])


def _engine_for(folder: Path, options: Mapping[str, Any]) -> Engine[Any]:
    """The engine of a new location: the one whose configuration names the graph, else the default one."""
    names = (
        one for one in all_engines() if options["graph"] in ask(ListNamedEntryPoints(one.name, str(folder)))
    )
    return next(names, engine_of(None))


def _entry_point(engine: Engine[Any], project: Project, options: Mapping[str, Any]) -> tuple[str, str]:
    """The named entry point, else the project's only one, and its kind."""
    named = named_entry_point(engine, Path(project.folder), options)
    points = [named] if named else project.entry_points
    kinds = ask(ListEntryPointKinds(engine.name, project.folder, points))
    fitting = [name for name, kind in kinds.items() if named or options["kind"] in (None, kind)]
    if len(fitting) != 1:
        raise CommandError(
            _("Choose what to run with --entrypoint. The project's entry points: %s")
            % (", ".join(f"{name} ({kind})" if kind else name for name, kind in kinds.items()) or "-")
        )
    kind = options["kind"] or kinds[fitting[0]]
    if not kind:
        raise CommandError(_("Its source does not say what %s is: name it with --kind.") % fitting[0])
    return fitting[0], kind


def _inputs(kind: RootKind, options: Mapping[str, Any]) -> dict[str, Any]:
    inputs = inputs_of(options)
    if options["state"] is not None:
        if not kind.has_state:
            having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.has_state))
            raise CommandError(
                _("Only these have a state: %(kinds)s. Pass inputs instead.") % {"kinds": having}
            )
        inputs = {**state_of(options["state"]), **inputs}
    if kind.prompt and not set(inputs) <= {kind.prompt}:
        message = _("A standalone %(kind)s has one input, its prompt: --input '%(prompt)s=\"…\"'.")
        raise CommandError(message % {"kind": _(kind.label), "prompt": kind.prompt})
    return inputs
