"""``manage.py checkpoints run``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.arguments.checkpointing import add_checkpoint_arguments, checkpoint_settings_of
from viewer.cli.arguments.choices import add_choice_arguments, new_choices_of
from viewer.cli.arguments.edits import inputs_of, state_of
from viewer.cli.arguments.losses import accepted_in, add_accept_argument
from viewer.cli.arguments.options import add_terms_arguments, terms_of
from viewer.cli.arguments.projects import add_project_arguments, project_for
from viewer.cli.finding import typed_path
from viewer.cli.output import Answer
from viewer.cli.starting import outcome_of, refusal
from viewer.engines import engine_of, kinds_that
from viewer.engines.protocol import Engine, RootKind, kind_of
from viewer.importing import UnknownLocation, open_write_target, write_target_at
from viewer.jobs.execution.request import FIRST_BRANCH, request_for_run
from viewer.jobs.execution.start import JobRefused
from viewer.jobs.spool import LocationTarget
from viewer.launching.enqueue import start_run
from viewer.messages.labels import told
from viewer.models import Location, Project

HELP = gettext_lazy("Run a project's crew, flow or agent from its start, and write its checkpoints here.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location",
        metavar="LOCATION",
        help=_("A folder, or a file that ends with .db for SQLite; what is not there yet is made."),
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="KEY=JSON",
        help=_("An input; a lone agent has one, messages."),
    )
    parser.add_argument("--state", metavar="JSON|@FILE", help=_("A flow's inputs, as one object."))
    add_choice_arguments(parser)
    add_checkpoint_arguments(parser)
    add_terms_arguments(parser)
    add_project_arguments(parser)
    add_accept_argument(parser)
    parser.add_argument(
        "--wait", action="store_true", help=_("Wait for its end, and run it where no worker is.")
    )


def answer(options: Mapping[str, Any]) -> Answer:
    """The job, and its outcome where it was waited for. Raises CommandError for senseless arguments."""
    path = typed_path(options["location"]).expanduser().absolute()
    known = Location.objects.select_related("project").filter(path=str(path.resolve())).first()
    settings, terms = checkpoint_settings_of(options), terms_of(options)
    project = project_for(known or Location(path=str(path)), options)
    entry_point, entity = _entry_point(engine_of(known), project, options)
    engine = engine_of(known)
    inputs = _inputs(kind_of(engine, entity), options)
    choices = new_choices_of(options, kind_of(engine, entity))
    choices.update(accepted_in(options))
    if settings:
        choices["checkpoints"] = settings
    try:
        place = write_target_at(str(path), project)
        target = LocationTarget(path=place.path, provider="sqlite" if place.provider == "sqlite" else "json")
        name = engine.entry_point_title(entry_point)
        request = request_for_run(target, entity, name, entry_point, inputs, choices)
        job = start_run(open_write_target(place, project), project, request, terms=terms)
    except (UnknownLocation, JobRefused) as refused:
        return refusal(FIRST_BRANCH, [], told(refused))
    return outcome_of(job, [], options["wait"])


def _entry_point(engine: Engine[Any], project: Project, options: Mapping[str, Any]) -> tuple[str, str]:
    """The named entry point, else the project's only one, and what it gives."""
    named = options["entrypoint"] or ""
    kinds = engine.entry_point_kinds(Path(project.folder), [named] if named else project.entry_points)
    fitting = [name for name, kind in kinds.items() if named or options["kind"] in (None, kind)]
    if len(fitting) != 1:
        raise CommandError(
            _("Name what to run with --entrypoint. The project has: %s")
            % (", ".join(f"{name} ({kind})" if kind else name for name, kind in kinds.items()) or "-")
        )
    kind = options["kind"] or kinds[fitting[0]]
    if not kind:
        raise CommandError(_("Its source does not tell what %s gives: name it with --kind.") % fitting[0])
    return fitting[0], kind


def _inputs(kind: RootKind, options: Mapping[str, Any]) -> dict[str, Any]:
    inputs = inputs_of(options)
    if options["state"] is not None:
        if not kind.has_state:
            having = ", ".join(_(one.label) for one in kinds_that(lambda one: one.has_state))
            raise CommandError(_("Only a %(kinds)s has a state: give inputs instead.") % {"kinds": having})
        inputs = {**state_of(options["state"]), **inputs}
    if kind.prompt and (set(inputs) != {kind.prompt} or not inputs[kind.prompt]):
        message = _("A lone %(kind)s is asked one thing: --input '%(prompt)s=\"…\"'.")
        raise CommandError(message % {"kind": _(kind.label), "prompt": kind.prompt})
    return inputs
