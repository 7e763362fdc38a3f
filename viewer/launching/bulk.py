"""Forks or resumes several runs at once, with the same edit. Each is a job as a single start makes it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import Count, F
from django.utils.translation import gettext as _

from viewer.engines.plan import Edits, plain_steps
from viewer.engines.protocol import Contents
from viewer.formats import short_size
from viewer.host_requests import HostRefusal, each_asked_once
from viewer.launching import requests, sweep
from viewer.launching.edits import INVALID, InvalidValue, parse_value
from viewer.launching.labels import tool_choice_label
from viewer.launching.options import changed_models, named_role, parse_model, stored_models
from viewer.launching.preflight import preflight_of
from viewer.launching.preview import LaunchPreview, StepView, preview_launch
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    LaunchRefused,
    Refusal,
    digest_of,
    effects_refusal,
    messages_of,
    quota_refusals,
)
from viewer.launching.start import check_effects, new_effects
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Collection, CollectionItem, Job, Project, Sweep
from viewer.records.collections import checkpoints_of
from viewer.records.prices import UNKNOWN, Cost
from viewer.records.runner_requests import REPEATABLE_EDITS, request_for

# The edit that all runs have, applied to what each checkpoint holds.

# What it changes: an input or an entry of the state, or the model of one role or of all agents.
VALUE, MODEL = "value", "model"


@dataclass(frozen=True, slots=True)
class CommonEdit:
    """The new text of the value ``name``, or the new model of the role ``name``. No edit without ``part``."""

    part: str = ""
    name: str = ""
    text: str = ""

    def label(self, projects: Iterable[Project | None]) -> str:
        """What it changes, and the new value without secrets, also of these projects; empty for no edit."""
        if not self.part:
            return ""
        name = self.name if self.part == VALUE else self.name or _("model")
        dimension = requests.Dimension("input" if self.part == VALUE else MODEL, self.name, name, [self.text])
        shown = sweep.redacted_value(dimension, self.text)
        for project in dict.fromkeys(projects):
            shown = requests.redacted(shown, project)
        return f"{name}: {sweep.short_value(shown)}" if isinstance(shown, str) else name


def edited(contents: Contents, edit: CommonEdit) -> tuple[Edits, dict[str, str]]:
    """The edits and the models of a fork of this checkpoint. Raises LaunchRefused."""
    try:
        if edit.part == VALUE:
            group, stored = sweep.dimension_values(contents)
            if edit.name not in stored:
                raise InvalidValue(_("It has no input or state entry %(name)s.") % {"name": edit.name})
            value = parse_value(edit.text, sweep.editing_kind(stored[edit.name]))
            dimension = requests.Dimension(group, edit.name, edit.name, [value])
            return sweep.edits_of_values([(dimension, value)], contents)
        if edit.part == MODEL:
            models = stored_models(contents)
            role = named_role(edit.name, models)
            if role not in models:
                raise InvalidValue(_("This checkpoint has no agent %r.") % role)
            return Edits(), changed_models({role: parse_model(edit.text)}, models)
    except INVALID as invalid:
        raise LaunchRefused([Refusal(Code.PLAN, invalid)]) from None
    return Edits(), {}


# A request for several runs, and its preview.


# Each run is planned when the page is shown, so the limit bounds the time that this takes.
MAX_RUNS = 50
# All of these checkpoints are decoded at once.
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Chosen:
    """A checkpoint from which a run is to start. Without a ``request``, ``refusals`` say why there is none.

    ``title`` names the run, also if its row is gone.
    """

    title: str
    checkpoint: Checkpoint | None = None
    request: requests.ForkRequest | None = None
    refusals: Sequence[Refusal] = ()


def each_once(chosen: Iterable[Chosen]) -> list[Chosen]:
    """Each checkpoint once: one may have two names, or be the newest of a run that is selected as well."""
    found = {one.checkpoint.pk if one.checkpoint else one.title: one for one in chosen}
    return list(found.values())


def chosen_items(collection: Collection) -> list[Chosen]:
    """The checkpoint of each item that is one or a message of one, or why there is none.

    If there are more items than can start, one more than that.
    """
    items = list(collection.items.exclude(kind=CollectionItem.Kind.CALL)[: MAX_RUNS + 1])
    keys = {item: row.pk for item, row in checkpoints_of(items).items()}
    rows = Checkpoint.objects.select_related("location__project", "run__location").in_bulk(keys.values())
    missing = [Refusal(Code.CHECKPOINT, _("It was not found here."))]
    found = [(item, rows.get(keys.get(item.pk, 0))) for item in items]
    return [Chosen(str(row.run), row) if row else Chosen(str(item), refusals=missing) for item, row in found]


def size_error(checkpoints: Iterable[Checkpoint | None]) -> str:
    """Why these checkpoints are too large to be decoded at once; empty if they are not."""
    size = sum(one.size for one in checkpoints if one)
    if size <= MAX_BYTES:
        return ""
    message = _("The selected checkpoints have %(size)s. At most %(most)s can start at once.")
    return message % {"size": short_size(size), "most": short_size(MAX_BYTES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRequest(requests.LaunchRequest):
    """Forks or resumes of the ``chosen`` checkpoints, each in the project of its location.

    ``count`` is the number of runs that were selected; if there are too many, none is among the ``chosen``.
    ``edit`` names the group. ``options`` has the total limits. ``score`` is the function that scores the
    result of each fork, and what was recorded before; ``collection`` is the one whose checkpoints are forked.
    """

    project: Project | None = None
    kind: Job.Kind
    chosen: Sequence[Chosen]
    count: int
    edit: CommonEdit = CommonEdit()
    score: str = ""
    collection: Collection | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One of the runs with the preview of its start, and the reasons why it does not start."""

    chosen: Chosen
    preview: LaunchPreview | None
    refusals: Sequence[Refusal]

    @property
    def messages(self) -> list[str]:
        return messages_of(self.refusals)


@dataclass(frozen=True, slots=True)
class Group:
    """The runs with the same entry point and plan."""

    previews: Sequence[LaunchPreview]

    @property
    def first(self) -> LaunchPreview:
        return self.previews[0]

    @property
    def steps(self) -> list[StepView]:
        return self.first.plan.shown

    @property
    def tools(self) -> dict[str, str]:
        """What happens when one of the runs calls a tool, by the tool's name."""
        return {view.tool: str(tool_choice_label(view.choice)) for one in self.previews for view in one.tools}


@dataclass(kw_only=True)
class BulkPreview(CheckedLaunch):
    """What starts, in groups, and what does not. ``checks`` say why nothing can start."""

    request: BulkRequest
    members: Sequence[Member]
    # The number of earlier jobs of each checkpoint.
    started_before: dict[int, int]

    @property
    def starting(self) -> list[LaunchPreview]:
        """The previews of the runs that start."""
        return [one.preview for one in self.members if one.preview and not one.refusals]

    @property
    def refused(self) -> list[Member]:
        """The runs that do not start."""
        return [one for one in self.members if one.refusals]

    @property
    def groups(self) -> list[Group]:
        """The runs that start, by entry point and plan, the largest group first."""
        found: dict[tuple[object, ...], list[LaunchPreview]] = {}
        for one in self.starting:
            project = one.request.project
            steps = tuple((step.title, step.action) for step in one.plan.steps)
            found.setdefault((project and project.pk, one.request.entry_point, steps), []).append(one)
        return [Group(previews) for previews in sorted(found.values(), key=len, reverse=True)]

    @property
    def continued(self) -> int:
        """How many resumes give their branch a second continuation."""
        resumed = [one.request.checkpoint for one in self.starting if one.request.kind == Job.Kind.RESUME]
        on_same_branch = Checkpoint.objects.filter(
            parent__in=resumed, recorded_branch=F("parent__recorded_branch")
        )
        return on_same_branch.values("parent").distinct().count()

    @property
    def calls(self) -> int:
        """The model calls that the previous runs needed for what runs."""
        return sum(one.plan.calls for one in self.starting)

    @property
    def calls_no_model(self) -> bool:
        """Whether recorded answers replace all model calls."""
        return bool(self.starting) and all(one.request.calls_no_model for one in self.starting)

    @property
    def tokens(self) -> int:
        return sum(one.plan.tokens for one in self.starting)

    @property
    def cost(self) -> Cost:
        """What these calls would cost at the present prices."""
        return sum((one.plan.cost for one in self.starting), UNKNOWN)

    @property
    def digest(self) -> str:
        """A digest of what starts. A form sends the digest of the plan that it showed.

        It changes when another request has started one of these in the meantime.
        """
        plans = [[one.request.checkpoint.pk, one.request.branch, one.plan_digest] for one in self.starting]
        return digest_of([json.dumps([plans, self.started_before], sort_keys=True)])


def preview_bulk(request: BulkRequest) -> BulkPreview:
    """Preview each run as its own form does. Nothing is started, and no preflight check is run."""
    with each_asked_once():
        members = _members(request)
    pks = [one.checkpoint.pk for one in request.chosen if one.checkpoint]
    jobs = Job.objects.filter(checkpoint__in=pks).order_by().values_list("checkpoint").annotate(Count("pk"))
    started = {int(pk or 0): count for pk, count in jobs}
    preview = BulkPreview(request=request, members=members, started_before=started)
    preview.checks = _refusals(request, len(preview.starting))
    return preview


def _refusals(request: BulkRequest, starting: int) -> list[Refusal]:
    """Why nothing can start, although this number of runs could on their own."""
    if request.count > MAX_RUNS:
        message = _("%(count)d runs are selected. At most %(most)d can start at once.")
        return [Refusal(Code.START, message % {"count": request.count, "most": MAX_RUNS})]
    if error := size_error(one.checkpoint for one in request.chosen):
        return [Refusal(Code.START, error)]
    if request.score and (refusals := sweep.function_refusals(request.score)):
        return refusals
    if not starting:
        return [Refusal(Code.START, _("None of the selected runs can start."))]
    return quota_refusals(request, starting)


def _members(request: BulkRequest) -> list[Member]:
    """The runs with their previews. No two of them write to the same branch."""
    is_fork = request.kind == Job.Kind.FORK
    checkpoints = [one.request.checkpoint for one in request.chosen if one.request]
    # A fork's branch is new in its location, and a resume's is that of its run.
    taken: dict[int, set[str]] = {}
    if is_fork:
        locations = {checkpoint.location_id: checkpoint.location for checkpoint in checkpoints}
        taken = {pk: location.taken_branches for pk, location in locations.items()}
    else:
        jobs = Job.objects.unfinished().filter(run__in={checkpoint.run_id for checkpoint in checkpoints})
        for run, branch in jobs.values_list("run_id", "branch"):
            taken.setdefault(run or 0, set()).add(branch)
    members = []
    for one in request.chosen:
        if one.request is None:
            members.append(Member(one, None, one.refusals))
            continue
        checkpoint = one.request.checkpoint
        used = taken.setdefault(checkpoint.location_id if is_fork else checkpoint.run_id, set())
        member = _previewed(one, one.request, used)
        if member.preview and not member.refusals:
            used.add(member.preview.request.branch)
        members.append(member)
    return members


def _previewed(one: Chosen, request: requests.ForkRequest, taken: set[str]) -> Member:
    try:
        if request.kind == Job.Kind.FORK and not request.branch:
            request = replace(request, branch=requests.branch_for_edits(request, taken))
        preview = preview_launch(request, taken)
        preview = replace(preview, checks=[*preview.checks, *_other_refusals(preview, taken)])
        if preview.needs_preflight:
            _add_consent(preview)
    except HostRefusal as refused:
        return Member(one, None, [Refusal(Code.START, refused)])
    return Member(one, preview, preview.refusals)


def _other_refusals(preview: LaunchPreview, taken: set[str]) -> list[Refusal]:
    """What the form of a single start finds out later, or what it asks for: here, both are refused."""
    request = preview.request
    if request.kind == Job.Kind.RESUME and request.branch in taken:
        in_use = UserMessage("branch.in_use", {"name": request.branch})
        return [Refusal(Code.START, in_use)]
    is_resume, edits = request.kind == Job.Kind.RESUME, request.edits
    if is_resume and request.engine.editable(request.contents).questions and not edits.answers:
        return [Refusal(Code.PLAN, _("It waits for an answer. Give it on its own form."))]
    if request.root_kind.adds_to_state and not preview.plan.steps and (edits.state or edits.as_node):
        message = _("Only the project's code knows what runs after this edit. Start it from its own form.")
        return [Refusal(Code.PLAN, message)]
    return []


def _add_consent(preview: LaunchPreview) -> None:
    """Add what a person has to accept first: of an earlier preflight check, else the effects."""
    request = preview.request
    check = preflight_of(request, may_start=False)
    if check and check.has_ended and not check.is_outdated:
        preview.add_findings(check)
        return
    is_without = not request.root_kind.may_have_effects(request.entry_point)
    if request.accepted.effects or is_without:
        return
    try:
        if new_effects(request):
            preview.checks.append(effects_refusal())
    except LaunchRefused as refused:
        preview.checks += refused.refusals


def start_bulk(preview: BulkPreview) -> Sweep:
    """Queue all jobs in one transaction, once per request key. Raises LaunchRefused."""
    request = preview.request
    if earlier := sweep.started_group(request.key):
        return earlier
    if request.seen_plan not in (None, preview.digest):
        message = _("The plan has changed since it was shown. Check it, and press the button again.")
        raise LaunchRefused([Refusal(Code.SEND_AGAIN, message)])
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    label, planned = request.edit.label(one.request.project for one in preview.starting), []
    for one in preview.starting:
        if not one.findings and not one.away:
            check_effects(one.request)
        planned.append(_planned(one, label))
    return sweep.start_group(
        label,
        planned,
        request.key,
        request.options,
        requested_by=request.requested_by,
        score=request.score,
        collection=request.collection,
    )


def _planned(preview: LaunchPreview, label: str) -> sweep.Planned:
    request, steps = preview.request, preview.plan.steps
    job_request = request_for(
        request.checkpoint,
        request.kind,
        request.branch,
        request.edits,
        steps,
        request.entry_point,
        preview.options,
        request.settings,
    )
    # For the form that retries the job.
    kept = {REPEATABLE_EDITS: requests.kept_edits(job_request, request.project)}
    return sweep.Planned(
        label,
        request.branch,
        {**job_request, **kept},
        plain_steps(steps),
        request.checkpoint,
        request.project,
        request.kind,
    )
