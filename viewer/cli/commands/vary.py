"""``manage.py checkpoints vary``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.arguments.edits import read_text, unit_named
from viewer.cli.arguments.effects import add_effect_arguments, effect_documents, effect_lines, refused_effects
from viewer.cli.arguments.losses import add_loss_arguments, answers_of
from viewer.cli.arguments.options import add_terms_arguments, terms_of
from viewer.cli.arguments.projects import add_project_arguments, entry_point_of, project_for, source_for_plan
from viewer.cli.arguments.pruned import add_pruned_arguments, refuse_unfit
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Answer, lines_of
from viewer.cli.prompt import questions_asked
from viewer.cli.starting import is_well
from viewer.engines import engine_of
from viewer.engines.plan import plain_steps
from viewer.engines.protocol import Contents
from viewer.forms.fork import Surroundings, read_fork
from viewer.forms.sweep import Branch, VaryingForm, read_varying
from viewer.importing import stored_contents
from viewer.jobs.execution.cancel import request_cancel
from viewer.jobs.execution.request import request_for
from viewer.jobs.execution.start import JobRefused
from viewer.launching.draft import branches_of
from viewer.launching.enqueue import run_here
from viewer.launching.option_values import ALL_AGENTS, STRATEGIES
from viewer.launching.sweep import Planned, start_variations
from viewer.lineage.branch_names import proposed_branch
from viewer.messages.labels import step_words, told
from viewer.models import Checkpoint, Job, Project, Sweep
from viewer.presentation.jobs.status import status_words

HELP = gettext_lazy("Fork a checkpoint several times, over values of an input, outputs or models.")


def add_arguments(parser: CommandParser) -> None:
    """Declare what varies, and what holds for all."""
    add = parser.add_argument
    add("checkpoint", metavar="LOCATION#ID", help=_("A checkpoint, or its file."))
    add("--branch", metavar="BASE", help=_("The branches are named below it."))
    for name, form, words in (
        ("--vary", "KEY=JSON-LIST", _("The values of an input, or of a field of a flow's state.")),
        ("--vary-output", "TASK=TEXT|@FILE", _("A text for a finished task; once for each text.")),
        ("--vary-model", "[ROLE=]A,B", _("The models of an agent's role, or of all.")),
    ):
        add(name, action="append", default=[], metavar=form, help=words)
    add("--as-it-is", action="append", default=[], metavar="TASK", help=_("Its stored output is one, too."))
    add("--again-stale", action="store_true", help=_("Run again what was made with a former value."))
    add("--preload", choices=list(STRATEGIES), help=_("Warm the provider's prompt cache, once for all."))
    # The limits are for all of them together.
    add_terms_arguments(parser)
    add_project_arguments(parser)
    add_pruned_arguments(parser)
    add_loss_arguments(parser)
    add_effect_arguments(parser)
    add("--plan", action="store_true", help=_("Tell what would happen, and start nothing."))
    add("--wait", action="store_true", help=_("Wait for their end, and run them where no worker is."))


def answer(options: Mapping[str, Any]) -> Answer:
    """The group and its jobs, and what came of them where they were waited for. Raises CommandError."""
    checkpoint = checkpoint_at(options["checkpoint"])
    contents = stored_contents(checkpoint)
    project = None if options["plan"] else project_for(checkpoint.location, options)
    entry_point = entry_point_of(project, contents, options) if project else ""
    form = _form(checkpoint, contents, options)
    if form.errors:
        words = " ".join(f"{error.label}: {error.message}" for error in form.errors)
        return Answer(_document(None, form, [], error=words), [words], status=1)
    if project is None:
        lines = [line for branch in form.branches for line in _plan_lines(branch)]
        return Answer(_document(None, form, []), [*lines, _("Nothing has been started.")])
    try:
        if effects := refused_effects(checkpoint, project, entry_point, options):
            lines = effect_lines(effects)
            document = _document(None, form, [], error=lines[0]) | {"effects": effect_documents(effects)}
            return Answer(document, lines, status=1)
        group = _started(checkpoint, project, entry_point, contents, form, options)
    except JobRefused as refused:
        return Answer(_document(None, form, [], error=told(refused)), [told(refused)], status=1)
    jobs = list(group.jobs.order_by("created_at"))
    if options["wait"]:
        _wait(jobs)
    return _answer(group, form, jobs)


def _form(checkpoint: Checkpoint, contents: Contents, options: Mapping[str, Any]) -> VaryingForm:
    """The form, as the browser's would be sent."""
    branch = options["branch"] or proposed_branch(checkpoint.checkpoint_id)
    around = Surroundings(None, branch, [], "")
    sent: dict[str, list[str]] = {"branch": [branch]}
    group = "input" if engine_of(contents).editable(contents).inputs is not None else "state"
    for name, text in _pairs(options["vary"], "--vary"):
        if not text.strip().startswith("["):
            raise CommandError(_("--vary %s needs a JSON list, such as [1, 2].") % name)
        sent[f"vary-{group}:{name}"] = [text]
    for name, text in _pairs(options["vary_output"], "--vary-output"):
        sent.setdefault(f"vary-output:{unit_named(contents, name)}", []).append(read_text(text))
    for text in options["vary_model"]:
        role, _mark, models = text.rpartition("=")
        sent[f"vary-model:{role.strip() or _everyone(contents)}"] = ["\n".join(models.split(","))]
    for name in options["as_it_is"]:
        sent[f"vary-stored:{unit_named(contents, name)}"] = ["1"]
    if options["again_stale"]:
        sent["again-stale"] = ["1"]
    plain = read_fork(contents, around, None, {})
    plain.source = source_for_plan(checkpoint.location, contents, options)
    form = read_varying(contents, plain, branches_of(checkpoint), sent)
    known = {name for one in form.varied for name in (one.html_name, one.stored_name)}
    for name in sent:
        if name.startswith("vary-") and name not in known:
            raise CommandError(_("There is nothing to vary in this checkpoint by the name %r.") % name[5:])
    return form


def _everyone(contents: Contents) -> str:
    roles = {agent.role for agent in contents.agents}
    return roles.pop() if len(roles) == 1 else ALL_AGENTS


def _started(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    contents: Contents,
    form: VaryingForm,
    options: Mapping[str, Any],
) -> Sweep:
    planned = []
    for one in form.branches:
        if one.promise.refusals:
            raise JobRefused(f"{one.words}: {' '.join(one.promise.refusals)}")
        steps = one.promise.steps
        refuse_unfit(checkpoint, project, entry_point, contents, one.edits, steps, options)
        choices = answers_of(options, contents)
        if one.models:
            choices["models"] = one.models
        request = request_for(checkpoint, Job.Kind.FORK, one.name, one.edits, steps, entry_point, choices)
        planned.append(Planned(one.words, one.name, request, plain_steps(steps)))
    preload = options["preload"] or ""
    return start_variations(checkpoint, project, form.base, planned, uuid4(), terms_of(options), preload)


def _wait(jobs: Sequence[Job]) -> None:
    """Until all have ended; Ctrl-C has cancelled them by then, which their status tells."""
    try:
        for job in jobs:
            with questions_asked(job.pk):
                run_here(job)
    except KeyboardInterrupt:
        for job in jobs:
            request_cancel(job)
    finally:
        for job in jobs:
            job.refresh_from_db()


def _answer(group: Sweep, form: VaryingForm, jobs: Sequence[Job]) -> Answer:
    lines = []
    for job in jobs:
        lines += [f"{status_words(job)}: {job.variation} ({job.branch}, {job.pk})"]
        endings = [text for text in (told(job.why), job.result) if text]
        lines += [f"  {line}" for text in endings for line in lines_of(text)]
    is_good = all(is_well(job) for job in jobs)
    return Answer(_document(group, form, jobs), lines, status=0 if is_good else 1)


def _document(group: Sweep | None, form: VaryingForm, jobs: Sequence[Job], error: str = "") -> dict[str, Any]:
    by_branch = {job.branch: job for job in jobs}
    return {
        "group": str(group.pk) if group else None,
        "name": form.base,
        "limits": group.limits if group else {},
        "error": error,
        "effects": [],
        "branches": [_branch_document(branch, by_branch.get(branch.name)) for branch in form.branches],
    }


def _branch_document(branch: Branch, job: Job | None) -> dict[str, Any]:
    return {
        "variation": branch.words,
        "branch": branch.name,
        "job": str(job.pk) if job else None,
        "status": job.status if job else "planned",
        "result": job.result if job else "",
        "error": told(job.why) if job else "",
        "plan": plain_steps(branch.promise.steps),
    }


def _plan_lines(branch: Branch) -> Iterator[str]:
    yield f"{branch.name} ({branch.words})"
    yield from (f"  {step_words(step)}" for step in branch.promise.steps)
    yield from (f"  {line}" for line in branch.promise.then)


def _pairs(texts: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise CommandError(
                _("%(option)s needs NAME=VALUE, not %(text)s.") % {"option": option, "text": text}
            )
        yield name, value
