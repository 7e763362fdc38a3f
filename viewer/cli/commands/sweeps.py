"""``forkline sweep`` and ``bulk``: each starts several jobs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import Outcome, Output, Subcommand, lines_of, running, starting
from viewer.cli.finding import (
    add_checkpoint_argument,
    add_project_arguments,
    checkpoint_at,
    existing_collection,
    project_for,
)
from viewer.cli.options import add_options, dimensions_of, launch_options_of, sender_of
from viewer.engines.plan import plain_steps
from viewer.formats import count_text, score_number
from viewer.launching import bulk
from viewer.launching.calls import tool_document, tool_lines, tool_views
from viewer.launching.labels import step_text
from viewer.launching.options import (
    ACCEPTANCE,
    AGAIN_STALE,
    BRANCH_PREFIX,
    CODE,
    DIMENSIONS,
    MODEL,
    RECORDED,
    SCHEDULE,
    SCORE,
    SETTINGS,
    SWEEP_AS_NODE,
    SWEEP_CACHE_WARMUP,
    TOOLS,
)
from viewer.launching.preview import in_project
from viewer.launching.refusals import Code, LaunchRefused, Refusal, messages_of
from viewer.launching.requests import FORKS_AND_RESUMES, SweepRequest, sweep_prefix
from viewer.launching.start import request_cancel
from viewer.launching.sweep import SweepPreview, Variation, preview_sweep, started_group, sweep
from viewer.messages.translation import translate
from viewer.models import Job, Sweep
from viewer.presentation.comparison_sides import best_of, score_of, score_text
from viewer.presentation.jobs.status import status_label
from viewer.presentation.sweeps import MeanDifference, mean_difference_of, runs_of
from viewer.records.collections import recorded_scoring_of, scoring_of
from viewer.validation import NAME


def _add_sweep_arguments(parser: CommandParser) -> None:
    add_checkpoint_argument(parser)
    add_options(parser, BRANCH_PREFIX, *DIMENSIONS, *SETTINGS, SWEEP_AS_NODE, SCORE, AGAIN_STALE, *TOOLS)
    add_options(parser, CODE, SWEEP_CACHE_WARMUP)
    # The limits are for all forks together.
    add_options(parser, *SCHEDULE)
    add_project_arguments(parser)
    add_options(parser, *ACCEPTANCE)
    parser.add_argument("--plan", action="store_true", help=_("Show the plan without starting anything."))
    starting.add_wait_argument(parser)


def _handle_sweep(options: Mapping[str, Any]) -> Output:
    """The sweep and its jobs, and their outcomes if they were waited for. Raises CommandError."""
    request = _sweep_request(options)
    preview = preview_sweep(request)
    early = [one for one in preview.refusals if one.code in {*starting.EARLY, Code.VARIATIONS, Code.SCORE}]
    if early:
        return _sweep_refusal(preview, LaunchRefused(early))
    if options["plan"]:
        lines = [line for variation in preview.variations for line in _sweep_plan_lines(variation)]
        # The request has no project yet: only a start confirms one.
        known = replace(request, project=request.checkpoint.location.project)
        views = tool_views(preview.recorded, known)
        lines += [line for view in views for line in tool_lines(view)]
        lines += filter(None, [preview.model_note])
        document = _sweep_plan_document(preview) | {"tools": [tool_document(view) for view in views]}
        return Output(document, [*lines, _("Nothing has been started.")])
    try:
        started = sweep(in_project(preview, project_for(request.checkpoint.location, options)))
    except LaunchRefused as refused:
        return _sweep_refusal(preview, refused)
    jobs = list(started.branches)
    if options["wait"]:
        wait_for(jobs, options["wait"])
    return _sweep_answer(started, jobs, options["wait"])


def _sweep_request(options: Mapping[str, Any]) -> SweepRequest:
    """The request, without a project."""
    checkpoint = checkpoint_at(options["checkpoint"])
    contents = starting.contents_to_run(checkpoint)
    request = SweepRequest(
        **starting.checkpoint_values(checkpoint.location, checkpoint, contents, options),
        prefix=options["branch"] or "",
        dimensions=dimensions_of(options, contents),
        again_stale=options["again_stale"],
        as_node=options["as_node"] or "",
        uses_recorded_code=options["code"] == RECORDED,
        score=options["score"] or "",
        cache_warmup=options["cache_warmup"] or "",
    )
    return request if request.prefix else replace(request, prefix=sweep_prefix(request))


def _sweep_refusal(preview: SweepPreview, refused: LaunchRefused) -> Output:
    document = _sweep_plan_document(preview, error=str(refused)) | {"effects": starting.effects_in(refused)}
    return Output(document, starting.refusal_lines(refused), status=1)


def wait_for(jobs: Sequence[Job], waits: bool | str) -> None:
    """Wait until all have ended. Ctrl-C cancels them, and their status says so."""
    try:
        for job in jobs:
            with running.questions_asked(job, prints_events=waits == starting.FOLLOWS) as nobody_answers:
                running.run_here(job, nobody_answers)
        for scoring in _scorings(jobs):
            running.run_here(scoring)
    except KeyboardInterrupt:
        for job in jobs:
            request_cancel(job)
    finally:
        for job in jobs:
            job.refresh_from_db()


def _scorings(jobs: Sequence[Job]) -> list[Job]:
    """The jobs that score the results of those that have ended, and what was recorded before."""
    ended = [job for job in jobs if job.has_ended]
    return [*scoring_of(ended).values(), *recorded_scoring_of(ended).values()]


def _sweep_outcome(key: UUID, waits: bool) -> Outcome | None:
    """The present outcome of the sweep that was started with a key; None for none."""
    return group_outcome(key, lambda started: _sweep_answer(started, list(started.branches), waits))


def group_outcome(key: UUID, shown: Callable[[Sweep], Output]) -> Outcome | None:
    """What ``shown`` returns of the sweep that was started with a key, and its unfinished jobs."""
    started = started_group(key)
    if started is None:
        return None
    jobs = list(started.branches)
    jobs += _scorings(jobs)
    return Outcome(shown(started), [job.pk for job in jobs if not running.is_over(job)])


def _sweep_answer(started: Sweep, jobs: Sequence[Job], waits: bool) -> Output:
    lines, scoring = [], scoring_of(jobs)
    for job in jobs:
        label = _("waiting for an answer") if waits and running.waiting_questions(job) else status_label(job)
        lines += [f"{label}: {job.variation} ({job.branch}, {job.pk})", *_ending_lines(job)]
    best = [jobs[at].branch for at in best_of([score_of(scoring.get(job.pk)) for job in jobs])]
    for job in jobs:
        if one := scoring.get(job.pk):
            mark = _("%(score)s, best") if job.branch in best else "%(score)s"
            lines += [f"{_('Score')} {job.branch}: " + mark % {"score": score_text(one)}]
    asked = [question for job in jobs for question in running.waiting_questions(job)] if waits else []
    lines += running.waiting_lines(asked)
    is_good = all(starting.is_well(job) for job in [*jobs, *scoring.values()])
    branches = [_sweep_branch_document(job, scoring.get(job.pk)) for job in jobs]
    document = _sweep_document(started.name, branches) | {
        "group": str(started.pk),
        "limits": started.limits,
        "questions": list(map(running.pending_document, asked)),
        "best": best,
    }
    return Output(document, lines, status=starting.WAITS_STATUS if asked else 0 if is_good else 1)


def _ending_lines(job: Job) -> list[str]:
    """The error and the result of a job."""
    endings = [text for text in (translate(job.error), job.result) if text]
    return [f"  {line}" for text in endings for line in lines_of(text)]


def _sweep_document(name: str, branches: list[dict[str, Any]], error: str = "") -> dict[str, Any]:
    return {
        "group": None,
        "name": name,
        "limits": {},
        "error": error,
        "effects": [],
        "questions": [],
        "branches": branches,
        "best": [],
    }


def _sweep_plan_document(preview: SweepPreview, error: str = "") -> dict[str, Any]:
    return _sweep_document(
        preview.request.prefix, list(map(_sweep_variation_document, preview.variations)), error
    )


def _sweep_variation_document(variation: Variation) -> dict[str, Any]:
    return {
        "variation": variation.label,
        "branch": variation.branch,
        "job": None,
        "status": "planned",
        "result": "",
        "error": "",
        "score": None,
        "plan": plain_steps(variation.plan.steps),
    }


def _sweep_branch_document(job: Job, scoring: Job | None) -> dict[str, Any]:
    return {
        "variation": job.variation,
        "branch": job.branch,
        "job": str(job.pk),
        "status": job.status,
        "result": job.result,
        "error": translate(job.error),
        "score": score_of(scoring),
        "plan": job.plan,
    }


def _sweep_plan_lines(variation: Variation) -> Iterator[str]:
    yield f"{variation.branch} ({variation.label})"
    yield from (f"  {step_text(step)}" for step in variation.plan.steps)
    yield from (f"  {line}" for line in variation.plan.then)


SWEEP = Subcommand(
    gettext_lazy("Fork a checkpoint several times, over values of an input, outputs or models."),
    _add_sweep_arguments,
    _handle_sweep,
    outcome=_sweep_outcome,
)


# ``manage.py checkpoints bulk``.


def _add_bulk_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "what",
        metavar="fork|resume",
        # Not members of the enumeration, whose names an error would show.
        choices=tuple(map(str, FORKS_AND_RESUMES)),
        help=_("Whether each is forked, or resumed on its own branch."),
    )
    add_checkpoint_argument(parser, name="checkpoints", nargs="*")
    parser.add_argument(
        "--collection", type=NAME, metavar="NAME", help=_("Each checkpoint of this collection as well.")
    )
    starting.add_launch_arguments(parser)
    add_options(parser, MODEL, AGAIN_STALE, SCORE)


def _handle_bulk(options: Mapping[str, Any]) -> Output:
    """The jobs, and their outcomes if they were waited for. Raises CommandError."""
    names = list(dict.fromkeys(options["checkpoints"]))
    collection = existing_collection(options["collection"]) if options["collection"] else None
    items = bulk.chosen_items(collection) if collection else []
    count = len(names) + len(items)
    if not (names or collection):
        raise CommandError(_("Name checkpoints, or a collection."))
    chosen = bulk.each_once([*map(_named, names), *items] if count <= bulk.MAX_RUNS else [])
    if not bulk.size_error(one.checkpoint for one in chosen):
        chosen = [_with_request(one, options) for one in chosen]
    request = bulk.BulkRequest(
        kind=Job.Kind(options["what"]),
        chosen=chosen,
        count=count,
        **sender_of(options),
        options=launch_options_of(options),
        score=options["score"] or "" if options["what"] == Job.Kind.FORK else "",
        collection=collection,
    )
    preview = bulk.preview_bulk(request)
    if options["plan"]:
        return _bulk_output(preview, [], _("Nothing has been started."))
    try:
        jobs = _bulk_jobs(bulk.start_bulk(preview))
    except LaunchRefused as refused:
        return _bulk_output(preview, [], *starting.refusal_lines(refused), error=str(refused))
    if options["wait"]:
        wait_for(jobs, options["wait"])
    return _bulk_output(preview, jobs, waits=options["wait"])


def _named(name: str) -> bulk.Chosen:
    try:
        return bulk.Chosen(name, checkpoint_at(name))
    except CommandError as error:
        return bulk.Chosen(name, refusals=[Refusal(Code.PLAN, str(error))])


def _with_request(one: bulk.Chosen, options: Mapping[str, Any]) -> bulk.Chosen:
    """The checkpoint with its request. What makes the options invalid for it refuses it alone."""
    checkpoint = one.checkpoint
    if checkpoint is None:
        return one
    try:
        is_fork = options["what"] == Job.Kind.FORK
        branch = "" if is_fork else checkpoint.recorded_branch
        request = starting.request_from(FORKS_AND_RESUMES[options["what"]], checkpoint, branch, options)
        location = checkpoint.location
        project = location.project if options["plan"] else project_for(location, options)
        request = replace(request, project=project, again_stale=options["again_stale"])
    except CommandError as error:
        return bulk.Chosen(one.title, checkpoint, refusals=[Refusal(Code.PLAN, str(error))])
    return bulk.Chosen(one.title, checkpoint, request)


def _bulk_output(
    preview: bulk.BulkPreview, jobs: Sequence[Job], *ending: str, error: str = "", waits: bool = False
) -> Output:
    """A line and a document for each job or refused checkpoint, or for each that would start."""
    lines, entries = [], []
    for group in preview.groups if not jobs else ():
        lines += [step_text(step.step) for step in group.steps]
        for one in group.previews:
            target, branch = one.request.checkpoint.target, one.request.branch
            lines += [f"{target} ({branch})"]
            entry = _bulk_entry(target, None, "planned")
            entries.append(entry | {"branch": branch, "plan": plain_steps(one.plan.steps)})
    refused_lines, refused = [], []
    for member in preview.refused:
        hints = starting.hints_of(member.refusals)
        message = " ".join([*member.messages, *hints])
        refused_lines += [f"{_('refused')}: {member.chosen.title}", f"  {message}"]
        entry = _bulk_entry(member.chosen.title, None, "refused")
        refused.append(entry | {"error": " ".join(member.messages), "hints": hints})
    if jobs:
        return _bulk_started(jobs, refused_lines, refused, waits=waits)
    document = _bulk_document([*entries, *refused]) | {
        "limits": dict(preview.request.options.limits),
        "error": error or " ".join(messages_of(preview.checks)),
    }
    is_good = not (document["error"] or refused)
    return Output(document, [*lines, *refused_lines, *ending], status=0 if is_good else 1)


def _bulk_started(
    jobs: Sequence[Job],
    refused_lines: Sequence[str] = (),
    refused: Sequence[dict[str, Any]] = (),
    *,
    waits: bool,
) -> Output:
    """A line and a document for each job, and for what was refused."""
    lines, entries, sweep = [], [], jobs[0].sweep
    assert sweep is not None
    scored = {one.job.pk: one for one in runs_of(sweep)} if sweep.score else {}
    for job in jobs:
        target = job.checkpoint.target if job.checkpoint else ""
        lines += [f"{status_label(job)}: {target} ({job.branch}, {job.pk})", *_ending_lines(job)]
        entry = _bulk_entry(target, job, job.status) | {"branch": job.branch, "plan": job.plan}
        if compared := scored.get(job.pk):
            entry |= {"score": compared.score, "recorded_score": score_of(compared.recorded)}
            lines += [f"  {compared.pair_text}"]
        entries.append(entry)
    asked = [question for job in jobs for question in running.waiting_questions(job)] if waits else []
    mean = mean_difference_of(list(scored.values()))
    lines += [*refused_lines, *mean_lines(mean), *running.waiting_lines(asked)]
    document = _bulk_document([*entries, *refused]) | {
        "mean_difference": asdict(mean) if mean else None,
        "group": str(sweep.pk),
        "limits": sweep.limits,
        "questions": list(map(running.pending_document, asked)),
    }
    is_good = not refused and all(map(starting.is_well, jobs))
    return Output(document, lines, status=starting.WAITS_STATUS if asked else 0 if is_good else 1)


def _bulk_outcome(key: UUID, waits: bool) -> Outcome | None:
    """The present outcome of what was started with a key, without what was refused; None for nothing."""
    return group_outcome(key, lambda started: _bulk_started(_bulk_jobs(started), waits=waits))


def _bulk_jobs(started: Sweep) -> list[Job]:
    return list(
        started.branches.select_related("location", "checkpoint__location", "checkpoint__run", "sweep")
    )


def _bulk_document(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "mean_difference": None,
        "group": None,
        "limits": {},
        "error": "",
        "runs": runs,
        "questions": [],
    }


def _bulk_entry(target: str, job: Job | None, status: str) -> dict[str, Any]:
    return {
        "target": target,
        "job": str(job.pk) if job else None,
        "status": status,
        "branch": "",
        "result": job.result if job else "",
        "error": translate(job.error) if job else "",
        "hints": [],
        "plan": [],
        "score": None,
        "recorded_score": None,
    }


def mean_lines(mean: MeanDifference | None) -> Iterator[str]:
    """The mean difference with its interval, as sentences."""
    if mean is None:
        return
    text = ngettext(
        "Mean difference %(mean)s, of %(count)s pair.",
        "Mean difference %(mean)s, of %(count)s pairs.",
        mean.count,
    )
    yield text % {"mean": score_number(mean.mean), "count": count_text(mean.count)}
    if mean.low is not None and mean.high is not None:
        values = {"low": score_number(mean.low), "high": score_number(mean.high)}
        yield _("95 %% confidence interval: %(low)s to %(high)s.") % values


BULK = Subcommand(
    gettext_lazy("Fork or resume several checkpoints at once, with the same edits."),
    _add_bulk_arguments,
    _handle_bulk,
    outcome=_bulk_outcome,
)
