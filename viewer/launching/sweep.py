"""Sweeps: the values that a sweep or several runs vary, its plan, and its start."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import product
from math import prod
from typing import Any, ClassVar
from uuid import UUID, uuid4, uuid5

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _

from viewer.data_folder.locks import exclusive_transaction
from viewer.engines import engine_of
from viewer.engines.plan import MISSING, EditableOutput, Edits, OpenQuestion, RunSettings, plain_steps
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.runner_protocol import Options
from viewer.host_requests import JobRefused, ask
from viewer.launching import start
from viewer.launching.calls import answer_refusals, new_choices
from viewer.launching.edits import (
    InvalidValue,
    ValueKind,
    canonical,
    decoded,
    parse_output,
    parse_values,
    same_value,
)
from viewer.launching.edits import kind_of as value_kind_of
from viewer.launching.options import ALL_AGENTS, SCORE, parse_function, parse_model
from viewer.launching.preview import CheckpointPreview, PlanPreview, source_refusals
from viewer.launching.refusals import (
    Code,
    LaunchRefused,
    Refusal,
    branch_refusals,
    copy_refusals,
    digest_of,
    find_redacted_parts,
    plan_changed,
    project_refusals,
    quota_refusals,
    text_refusals,
)
from viewer.launching.requests import ACCEPT_ALL, Dimension, LaunchOptions, SweepRequest, redacted
from viewer.models import Checkpoint, Collection, Job, Project, Sweep
from viewer.records.audit import Action, Audited, record
from viewer.records.collections import SCORE_SECONDS, expected_answer, recorded_key
from viewer.records.hosts import claimants, enqueue
from viewer.records.lineage.tree import MAX_CHARACTERS, NUMBER_BYTES, beginning, free_name
from viewer.records.prices import UNKNOWN, Cost
from viewer.records.recorded_calls import recorded_answers, recorded_tools
from viewer.records.runner_requests import request_for, request_for_score
from viewer.redaction import MARKER
from viewer.redaction.values import redact

# The dimensions of a sweep, parsed from texts. Equal values count once.


def dimension_values(contents: Contents) -> tuple[str, Mapping[str, Any]]:
    """The group of values that a sweep can vary, input or state, and the stored ones by name."""
    editable = engine_of(contents).editable(contents)
    if editable.inputs is not None:
        return "input", editable.inputs
    return "state", editable.state or {}


def value_dimension(group: str, name: str, kind: ValueKind, text: str) -> Dimension:
    """An input, an entry of the state or of the context, or a configurable value. Raises InvalidValue."""
    return Dimension(group, name, name, _distinct(parse_values(text, kind)))


def answer_dimension(question: OpenQuestion, text: str) -> Dimension:
    """The answers to a checkpoint's interrupt. Answers that are JSON are parsed. Raises InvalidValue."""
    values = [decoded(value) for value in parse_values(text, ValueKind.TEXT)]
    return Dimension("answer", question.id, question.prompt, _distinct(values))


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values, equal ones once."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
    return list(found.values())


def editing_kind(stored: Any) -> ValueKind:
    """The kind of a typed value: that of the stored value, or text if it is missing or redacted."""
    return ValueKind.TEXT if stored is MISSING or stored == MARKER else value_kind_of(stored)


def output_label(unit: str, output: EditableOutput) -> str:
    """The label of an output, by the position of its unit. ``unit`` is the root kind's ``unit_label``."""
    return _("output of %(unit)s %(position)d") % {"unit": _(unit), "position": output.position}


def output_dimension(
    label: str, output: EditableOutput, texts: Iterable[str], keeps_stored: bool
) -> Dimension:
    """The output of a finished unit. ``keeps_stored`` adds the stored one. Raises InvalidValue."""
    values = _distinct(parse_output(output, text) for text in texts)
    if keeps_stored and values and None not in values:
        values.insert(0, None)
    return Dimension("output", output.unit, label, values)


def model_dimension(role: str, names: Iterable[str]) -> Dimension:
    """The model of a role, or of all agents. Raises InvalidValue."""
    label = _("model") if role == ALL_AGENTS else role
    models = [parse_model(name.strip()) for name in names if name.strip()]
    return Dimension("model", role, label, list(dict.fromkeys(models)))


# The variations of a sweep: each combination of its dimensions' values, with its branch and plan.


MAX_VARIATIONS = 20
MAX_LABEL = 60
MAX_BRANCH_PART = 30


@dataclass(slots=True)
class Variation:
    """One fork of a sweep. ``label`` says which values it has."""

    number: int
    label: str
    branch: str
    models: dict[str, str]
    settings: RunSettings
    plan: PlanPreview
    branch_error: str = ""

    @property
    def edits(self) -> Edits:
        return self.plan.plan.edits


def variations_of(request: SweepRequest) -> Iterator[Variation]:
    """Yield the variation of each combination."""
    branches: set[str] = set()
    source = ask(request.source, host=request.source_host) if request.folder else None
    contents, dimensions = request.contents, request.dimensions
    engine = engine_of(contents)
    combinations = product(*(one.values for one in dimensions))
    shown_combinations = product(*_shown_values(request))
    for number, (combination, shown) in enumerate(zip(combinations, shown_combinations, strict=True), 1):
        pairs = list(zip(dimensions, combination, strict=True))
        edits, models = edits_of_values(pairs, contents, request.as_node)
        plan = engine.whole_plan(contents, edits, request.furthest, source, again_stale=request.again_stale)
        varied = [value for one, value in zip(dimensions, shown, strict=True) if len(one.values) > 1]
        branch = _branch(request.prefix, varied, number, branches)
        branches.add(branch)
        named = zip(dimensions, shown, strict=True)
        label = ", ".join(f"{one.label}: {short_value(value)}" for one, value in named)
        settings = _settings_of(pairs, request.settings)
        yield Variation(number, label, branch, models, settings, PlanPreview(contents, plan))


def _shown_values(request: SweepRequest) -> Sequence[Sequence[Any]]:
    """The values of each dimension without secrets, also those of the project.

    All of them are redacted while the project's host, which alone knows its secrets, does not answer.
    """
    values = [[redacted_value(one, value) for value in one.values] for one in request.dimensions]
    shown: list[list[Any]] | None = redacted(values, request.project)
    return shown or [[MARKER] * len(one) for one in values]


def _settings_of(pairs: Sequence[tuple[Dimension, Any]], common: RunSettings) -> RunSettings:
    """The settings of a combination: the common ones, and its own values."""
    configurable = {one.key: value for one, value in pairs if one.group == "configurable"}
    context = {one.key: value for one, value in pairs if one.group == "context"}
    return replace(
        common,
        configurable={**common.configurable, **configurable},
        context={**common.context, **context},
    )


def edits_of_values(
    pairs: Sequence[tuple[Dimension, Any]], contents: Contents, as_node: str = ""
) -> tuple[Edits, dict[str, str]]:
    """The edits and models of a combination. A value equal to the stored one is no edit."""
    inputs: dict[str, Any] = {}
    state: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    models: dict[str, str] = {}
    answers: dict[str, Any] = {}
    stored_state = engine_of(contents).editable(contents).state or {}
    for one, value in pairs:
        if one.group == "model":
            models[one.key] = value
        elif one.group == "answer":
            answers[one.key] = value
        elif one.group == "output":
            if value is not None:
                outputs[one.key] = value
        elif one.group in ("input", "state"):
            stored = contents.inputs if one.group == "input" else stored_state
            if one.key not in stored or not same_value(value, stored[one.key]):
                (inputs if one.group == "input" else state)[one.key] = value
    # The typed value replaces the stored one, even where a reducer would add it.
    adds = kind_of(engine_of(contents), contents.kind).adds_to_state
    edits = Edits(
        inputs=inputs,
        outputs=outputs,
        state=state or None,
        replace=frozenset(state if adds else ()),
        as_node=as_node,
        answers=answers,
    )
    return edits, models


def redacted_value(one: Dimension, value: Any) -> Any:
    """The value with its secrets redacted, for the job's row and the branch name."""
    named = one.group in ("input", "state", "configurable", "context")
    return redact({one.key: value})[one.key] if named else redact(value)


def short_value(value: Any) -> str:
    """The value on one line of at most ``MAX_LABEL`` characters."""
    if value is None:
        return _("unchanged")
    if isinstance(value, dict) and set(value) == {"json"}:
        value = value["json"]
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _branch(prefix: str, values: Sequence[Any], number: int, taken: set[str]) -> str:
    """A branch name of the prefix and the combination's values, or its number."""
    # Engines may interpret "_p-" in a branch name, so underscores are replaced.
    texts = ["" if MARKER in short_value(value) else short_value(value) for value in values]
    parts = [slugify(text, allow_unicode=True).replace("_", "-") for text in texts]
    distinction = ".".join(part[:MAX_BRANCH_PART].strip("-") for part in parts if part.strip("-"))
    name = f"{prefix}/{beginning(distinction, MAX_CHARACTERS - NUMBER_BYTES) or number}"
    # Another variation may be named like this one with its number.
    return name if name not in taken else free_name(f"{name}-{number}", taken)


# Scores checkpoints: calls a function of the project with the contents of each, in a job.


def function_refusals(function: str) -> list[Refusal]:
    """The refusals of a text that is not ``module:function``."""
    try:
        parse_function(function)
    except InvalidValue as invalid:
        return [Refusal(Code.SCORE, str(invalid), "score-function", str(SCORE.label))]
    return []


def score(
    checkpoint: Checkpoint,
    function: str,
    project: Project | None = None,
    requested_by: AbstractBaseUser | None = None,
    key: UUID | None = None,
) -> Job:
    """Queue the call of ``module:function`` with the checkpoint's contents. Raises LaunchRefused.

    Returns the job that an earlier call stored with the same key, if any. ``project`` defaults to that of the
    checkpoint's location.
    """
    project = project or checkpoint.location.project
    options = LaunchOptions(limits={"seconds": SCORE_SECONDS})
    of_project = project_refusals(project, options)
    if refusals := [*copy_refusals(checkpoint), *of_project, *function_refusals(function)]:
        raise LaunchRefused(refusals)
    try:
        return start.start_job(
            checkpoint,
            project,
            Job.Kind.SCORE,
            checkpoint.recorded_branch,
            request_for_score(checkpoint, function),
            [],
            requested_by=requested_by,
            idempotency_key=key or uuid4(),
            options=options,
        )
    except JobRefused as refused:
        raise LaunchRefused([Refusal(Code.START, refused)]) from refused


# Starts a sweep: several forks of one checkpoint that differ in some values.


@dataclass(slots=True, kw_only=True)
class SweepPreview(CheckpointPreview):
    """The variations of a request; none if ``count``, their number, is above the limit."""

    passable: ClassVar[set[Code]] = {
        *(Code.BRANCH, Code.VARIATIONS, Code.PLAN, Code.REDACTED_PARTS, Code.SCORE)
    }
    request: SweepRequest
    is_edited: bool = True
    count: int = 0
    variations: list[Variation] = field(default_factory=list)

    @property
    def plan_digest(self) -> str:
        """A digest of the plans and their commit. A form sends the digest of what it showed."""
        plans = [[one.branch, one.models, plain_steps(one.plan.steps)] for one in self.variations]
        return digest_of([self.request.commit, json.dumps(plans, sort_keys=True)])

    @property
    def stale_count(self) -> int:
        """The number of variations that keep an output made with a former value."""
        return sum(bool(one.plan.stale) for one in self.variations)

    @property
    def calls(self) -> int:
        return sum(one.plan.calls for one in self.variations)

    @property
    def tokens(self) -> int:
        return sum(one.plan.tokens for one in self.variations)

    @property
    def cost(self) -> Cost:
        """What these calls would cost at the present prices."""
        return sum((one.plan.cost for one in self.variations), UNKNOWN)


def preview_sweep(request: SweepRequest) -> SweepPreview:
    """The variations with their plans, and the reasons why they cannot start."""
    count = prod(len(one.values) for one in request.dimensions) if request.dimensions else 0
    preview = SweepPreview(request=request, count=count)
    if request.calls_no_model:
        preview.answers = recorded_answers(request.checkpoint)
    preview.checks = source_refusals(request) + answer_refusals(preview.answers)
    preview.checks += text_refusals({one.key: list(one.values) for one in request.dimensions})
    if preview.count > MAX_VARIATIONS:
        message = _("This would start %(count)d branches. The limit is %(most)d.")
        values = {"count": preview.count, "most": MAX_VARIATIONS}
        preview.checks.append(Refusal(Code.VARIATIONS, message % values, "content", _("Variations")))
    elif not preview.count:
        message = _("Choose what to vary first.")
        preview.checks.append(Refusal(Code.VARIATIONS, message, "content", _("Variations")))
    else:
        preview.variations = list(variations_of(request))
        steps = [step for one in preview.variations for step in one.plan.steps]
        preview.recorded = recorded_tools(request.checkpoint, steps, is_edited=preview.is_edited)
        preview.checks += _variation_refusals(request, preview.variations)
        preview.checks += quota_refusals(request, count)
    if request.score:
        preview.checks += function_refusals(request.score)
    return preview


def sweep(preview: SweepPreview) -> Sweep:
    """Queue all forks in one transaction, once per request key. Raises LaunchRefused."""
    request = preview.request
    if earlier := started_group(request.key):
        return earlier
    if request.seen_plan not in (None, preview.plan_digest):
        raise plan_changed()
    if preview.refusals:
        # If the form was sent twice at the same time, the other request's forks have the branches.
        if earlier := started_group(request.key):
            return earlier
        raise LaunchRefused(preview.refusals)
    if not preview.findings and not preview.away:
        start.check_effects(request)
    options = preview.options
    planned = [_planned(request, options, variation) for variation in preview.variations]
    started = start_group(
        request.prefix,
        planned,
        request.key,
        request.options,
        checkpoint=request.checkpoint,
        cache_warmup="" if request.calls_no_model else request.cache_warmup,
        requested_by=request.requested_by,
        score=request.score,
    )
    if request.project:
        request.project.keep_tool_choices(new_choices(preview.tools))
    return started


def _variation_refusals(request: SweepRequest, variations: Sequence[Variation]) -> list[Refusal]:
    messages = [message for one in variations for message in one.plan.refusals]
    found = [Refusal(Code.PLAN, message) for message in dict.fromkeys(messages)]
    taken = request.checkpoint.location.taken_branches
    for one in variations:
        for refusal in branch_refusals(one.branch, taken):
            one.branch_error = refusal.message
            if not any(other.code == Code.BRANCH for other in found):
                found.append(refusal)
    if request.checkpoint.state != Checkpoint.State.PRUNED or request.accepted.redacted_parts == ACCEPT_ALL:
        return found
    for one in variations:
        if find_redacted_parts(request.contents, one.edits, one.plan.steps):
            message = _("Parts of this checkpoint's stored copy are redacted. Fork it once, to check them.")
            return [*found, Refusal(Code.REDACTED_PARTS, message)]
    return found


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of a sweep. ``label`` says what it varies or edits."""

    label: str
    branch: str
    request: Mapping[str, Any]
    plan: Sequence[Mapping[str, Any]]
    checkpoint: Checkpoint
    project: Project | None
    kind: Job.Kind = Job.Kind.FORK


def _planned(request: SweepRequest, common: Options, variation: Variation) -> Planned:
    steps, options = variation.plan.steps, common.copy()
    # The sweep decides which of its jobs warms the prompt cache.
    options.pop("cache_warmup", None)
    if variation.models:
        options["models"] = variation.models
    job_request = request_for(
        request.checkpoint,
        Job.Kind.FORK,
        variation.branch,
        variation.edits,
        steps,
        request.entry_point,
        options,
        variation.settings,
    )
    plan = plain_steps(steps)
    return Planned(variation.label, variation.branch, job_request, plan, request.checkpoint, request.project)


def start_group(
    name: str,
    planned: Sequence[Planned],
    key: UUID,
    options: LaunchOptions = start.NO_OPTIONS,
    checkpoint: Checkpoint | None = None,
    cache_warmup: str = "",
    requested_by: AbstractBaseUser | None = None,
    score: str = "",
    collection: Collection | None = None,
) -> Sweep:
    """The sweep with its queued jobs, enqueued once all of them are committed.

    ``checkpoint`` is the one that all of them fork; None for jobs of several runs. ``options`` has the start
    time of each job, and the total limits. Returns the sweep that an earlier call stored with the same key,
    if any. Only the first job warms up the prompt cache. With a ``score``, what was recorded after the
    checkpoints of several runs is scored as well, to be compared with the results.
    Raises LaunchRefused if a project cannot run, or if another job has one of the branches.
    """
    values = {
        "name": name[:300],
        "checkpoint": checkpoint,
        "is_of_runs": checkpoint is None,
        "limits": dict(options.limits),
        "requested_by": requested_by,
        "score": score,
        "collection": collection,
    }
    try:
        for project in dict.fromkeys(one.project for one in planned):
            start.check_project(project, options)
        with exclusive_transaction(start.BRANCHES):
            swept, is_new = Sweep.objects.get_or_create(idempotency_key=key, defaults=values)
            if is_new:
                start.refuse_over_quota(requested_by, [one.kind for one in planned], options.start_at)
                record(Action.STARTED, Audited.SWEEP, swept.pk, f"{len(planned)} jobs")
                jobs = [
                    _job(swept, number, one, options, cache_warmup if number == 1 else "")
                    for number, one in enumerate(planned, 1)
                ]
                if score and swept.is_of_runs:
                    jobs += [scoring for job in jobs if (scoring := _recorded_scoring(swept, job))]
                for job in jobs:
                    transaction.on_commit(partial(enqueue, job))
    except JobRefused as refused:
        if earlier := started_group(key):
            return earlier
        raise LaunchRefused([Refusal(Code.START, refused)]) from refused
    return swept


def started_group(key: UUID) -> Sweep | None:
    """The sweep that was stored with this key; None if there is none."""
    return Sweep.objects.filter(idempotency_key=key).first()


def _recorded_scoring(swept: Sweep, job: Job) -> Job | None:
    """The job that scores the newest checkpoint of the forked branch as recorded; None if it has none.

    If the job replays a call, it scores the recorded answer.
    """
    origin, call = job.checkpoint, job.replayed_call
    assert origin is not None
    rows = origin.run.checkpoints.filter(branch=origin.branch).select_related("location", "run")
    end = origin if call else rows.order_by("-row").first()
    if end is None:
        return None
    request = request_for_score(end, swept.score, expected_answer(swept, origin, call), call)
    scoring = Job.objects.create(
        idempotency_key=recorded_key(job),
        kind=Job.Kind.SCORE,
        location=end.location,
        run=end.run,
        checkpoint=end,
        project=job.project,
        sweep=swept,
        requested_by=job.requested_by,
        branch=end.recorded_branch,
        start_at=job.start_at,
        request=dict(request),
        limits={"seconds": SCORE_SECONDS},
        **claimants(end.location, end),
    )
    record(Action.STARTED, Audited.JOB, scoring.pk, scoring.kind)
    return scoring


def _job(swept: Sweep, number: int, one: Planned, options: LaunchOptions, cache_warmup: str) -> Job:
    checkpoint = one.checkpoint
    start.refuse_taken(one.kind, checkpoint.location, checkpoint.run, one.branch)
    run_options = {
        **one.request.get("options", {}),
        **({"cache_warmup": cache_warmup} if cache_warmup else {}),
    }
    job = Job.objects.create(
        idempotency_key=uuid5(swept.idempotency_key, str(number)),
        kind=one.kind,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=one.project,
        requested_by=swept.requested_by,
        branch=one.branch,
        start_at=options.start_at,
        request={**one.request, "options": run_options},
        plan=[dict(step) for step in one.plan],
        sweep=swept,
        variation=one.label[:300],
        # A microsecond apart, so that they sort in the order of the form.
        created_at=swept.created_at + timedelta(microseconds=number),
        **claimants(checkpoint.location, checkpoint),
    )
    record(Action.STARTED, Audited.JOB, job.pk, job.kind)
    return job
