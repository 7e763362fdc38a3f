"""Starts a fork or resume from the terminal, and tells what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.checkpointing import add_checkpoint_arguments, checkpoint_settings_of
from viewer.cli.arguments.choices import choices_of
from viewer.cli.arguments.edits import add_edit_arguments, edits_of
from viewer.cli.arguments.effects import (
    Effects,
    add_effect_arguments,
    effect_documents,
    effect_lines,
    refused_effects,
)
from viewer.cli.arguments.losses import add_loss_arguments, answers_of, look_of, loss_lines
from viewer.cli.arguments.options import add_terms_arguments, terms_of
from viewer.cli.arguments.projects import add_project_arguments, entry_point_of, project_for, source_for_plan
from viewer.cli.arguments.pruned import add_pruned_arguments, refuse_unfit
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Answer, lines_of
from viewer.cli.prompt import questions_asked
from viewer.cli.rows import checkpoint_document
from viewer.engines import engine_of
from viewer.engines.plan import EditRefused, Step, plain_steps
from viewer.engines.protocol import Outlook
from viewer.importing import stored_contents
from viewer.jobs.execution.request import request_for
from viewer.jobs.execution.start import JobRefused
from viewer.jobs.limits.usage import limit_label
from viewer.launching.draft import branches_of
from viewer.launching.enqueue import run_here, start_job
from viewer.lineage.branch_names import BranchRefused, checked_branch, proposed_branch
from viewer.messages.labels import decision_words, step_words, told
from viewer.models import Checkpoint, Job
from viewer.presentation.jobs.status import hint, status_words
from viewer.presentation.jobs.warnings import warnings_of


def add_run_arguments(parser: CommandParser) -> None:
    """Declare what ``fork`` and ``resume`` have in common."""
    parser.add_argument("checkpoint", metavar="LOCATION#ID", help=_("A checkpoint, or its file."))
    add_edit_arguments(parser)
    add_checkpoint_arguments(parser)
    add_project_arguments(parser)
    add_pruned_arguments(parser)
    add_loss_arguments(parser)
    add_effect_arguments(parser)
    add_terms_arguments(parser)
    parser.add_argument("--plan", action="store_true", help=_("Tell what would happen, and start nothing."))
    parser.add_argument(
        "--wait", action="store_true", help=_("Wait for its end, and run it where no worker is.")
    )


def started(kind: Job.Kind, options: Mapping[str, Any]) -> Answer:
    """The job, and its outcome where it was waited for. Raises CommandError for senseless arguments."""
    checkpoint = checkpoint_at(options["checkpoint"])
    branch, terms = checkpoint.branch, terms_of(options)
    steps: list[Step] = []
    try:
        if kind == Job.Kind.FORK:
            branch = options["branch"] or proposed_branch(checkpoint.checkpoint_id)
            checked_branch(branch, branches_of(checkpoint))
        contents = stored_contents(checkpoint)
        edits = edits_of(options, contents)
        engine = engine_of(contents)
        source = source_for_plan(checkpoint.location, contents, options)
        steps = engine.plan(contents, edits, source)
        if options["plan"]:
            return _planned(branch, steps, engine.outlook(contents, source))
        project = project_for(checkpoint.location, options)
        entry_point = entry_point_of(project, contents, options)
        refuse_unfit(checkpoint, project, entry_point, contents, edits, steps, options)
        choices = choices_of(options, contents)
        choices.update(answers_of(options, contents))
        if checkpoints := checkpoint_settings_of(options):
            choices["checkpoints"] = checkpoints
        if effects := refused_effects(checkpoint, project, entry_point, options):
            return _asks_for_effects(branch, steps, effects)
        request = request_for(checkpoint, kind, branch, edits, steps, entry_point, choices)
        job = start_job(checkpoint, project, kind, branch, request, plain_steps(steps), terms=terms)
    except (EditRefused, BranchRefused, JobRefused) as refused:
        return refusal(branch, steps, told(refused))
    return outcome_of(job, steps, options["wait"])


def outcome_of(job: Job, steps: Sequence[Step], waits: bool) -> Answer:
    """The job as it stands, or its end where it is waited for."""
    if waits:
        _wait(job)
    return _answer(job, steps)


def _wait(job: Job) -> None:
    """Until it has ended; Ctrl-C has cancelled it by then, which its status tells."""
    try:
        with questions_asked(job.pk):
            run_here(job)
    except KeyboardInterrupt:
        pass
    finally:
        job.refresh_from_db()


def _planned(branch: str, steps: Sequence[Step], outlook: Outlook) -> Answer:
    then = [decision_words(decision) for decision in outlook.decisions]
    lines = [*(step_words(step) for step in steps), *then, "", _("Nothing has been started.")]
    document = _document("planned", branch, steps)
    document["then"] = [asdict(decision) for decision in outlook.decisions]
    return Answer(document, lines)


def refusal(branch: str, steps: Sequence[Step], reason: str) -> Answer:
    """What is told where nothing was started, and why."""
    return Answer(_document("refused", branch, steps, error=reason), [reason], status=1)


def _asks_for_effects(branch: str, steps: Sequence[Step], effects: Effects) -> Answer:
    """What is told where nothing was started, because a person has to accept these effects first."""
    lines = effect_lines(effects)
    document = _document("refused", branch, steps, error=lines[0])
    return Answer({**document, "effects": effect_documents(effects)}, lines, status=1)


def _document(status: str, branch: str, steps: Sequence[Step], error: str = "") -> dict[str, Any]:
    """What is told where no job was made."""
    return {
        "job": None,
        "status": status,
        "branch": branch,
        "checkpoints": [],
        "result": "",
        "error": error,
        "warnings": [],
        "checkpoints_failed": 0,
        "plan": plain_steps(steps),
        "look": None,
        "effects": [],
        "start_at": None,
        "limits": {},
        "stopped_by": "",
    }


def _answer(job: Job, steps: Sequence[Step]) -> Answer:
    ids = list(job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True))
    rows = {
        row.checkpoint_id: row
        for row in Checkpoint.objects.filter(location=job.location, checkpoint_id__in=ids)
    }
    document = {
        "job": str(job.pk),
        "status": job.status,
        "branch": job.branch,
        "checkpoints": [checkpoint_document(rows[one]) for one in ids if one in rows],
        "result": job.result,
        "error": told(job.why),
        "warnings": warnings_of(job),
        "checkpoints_failed": job.events.filter(kind="checkpoint_failed").count(),
        "plan": plain_steps(steps),
        "look": look_of(job),
        "effects": [],
        "start_at": job.start_at.astimezone(UTC).isoformat() if job.start_at else None,
        "limits": job.limits,
        "stopped_by": limit_label(job),
    }
    lines = [
        *(step_words(step) for step in steps),
        *loss_lines(look_of(job)),
        "",
        f"{status_words(job)}: {job.branch} ({job.pk})",
        *([hint(job)] if job.is_stopped or not job.has_ended else []),
        *(_("Warning: %(warning)s") % {"warning": warning} for warning in warnings_of(job)),
    ]
    for ending in (told(job.why), job.result):
        lines += lines_of(ending.rstrip()) if ending.strip() else []
    return Answer(document, lines, status=0 if is_well(job) else 1)


def is_well(job: Job) -> bool:
    """Whether it has not ended yet, or succeeded and wrote all of its checkpoints."""
    return not job.has_ended or (job.status == Job.Status.SUCCEEDED and not job.is_incomplete)
