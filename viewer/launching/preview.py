"""What a fork or resume would do, what it costs, and why it may not start. Nothing is started here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeVar

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import Action, Decision, EditRefused, Edits, Reason, Step
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.recorded_calls import RecordedAnswers, RecordedTools
from viewer.engines.runner_request import Options
from viewer.formats import count_text
from viewer.host_requests import (
    ChangedFile,
    HostAway,
    JobRefused,
    ListCodeChanges,
    ListNextUnits,
    ReadSource,
    ask,
)
from viewer.launching import labels
from viewer.launching.calls import ToolView, answer_refusals, answers_of, model_note, tool_views, with_calls
from viewer.launching.other_host import OtherHostCheck, check_other_host
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    Refusal,
    away_host,
    branch_refusals,
    checkpoint_refusals,
    commit_refusals,
    digest_of,
    event_refusals,
    find_redacted_parts,
    messages_of,
    project_refusals,
    quota_refusals,
    settings_refusals,
    text_refusals,
)
from viewer.launching.requests import ACCEPT_ALL, CheckpointRequest, ForkRequest
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, PreflightCheck, Project, RecordedCode
from viewer.records.prices import UNKNOWN, Cost, current_prices
from viewer.records.recorded_calls import recorded_tools
from viewer.stores.model_calls import ModelUsage, usage_by_model

# The plan preview: the steps of a fork or resume, its refusals and its estimated cost.


P = TypeVar("P", bound=CheckedLaunch)
RUNNING = (Action.AGAIN, Action.RUNS)


@dataclass(frozen=True, slots=True)
class StepView:
    """A step with its labels. ``choice`` is the checkbox it has: again, keep, or empty for none."""

    step: Step
    choice: str = ""
    is_chosen: bool = False

    @property
    def sign(self) -> str:
        return labels.action_sign(self.step.action)

    @property
    def action_label(self) -> str:
        return labels.action_label(self.step.action)

    @property
    def reason(self) -> str:
        return labels.reason_label(self.step.reason)

    @property
    def stale(self) -> str:
        return labels.stale_text(self.step.stale)


@dataclass(slots=True)
class PlanPreview:
    """``refusals`` say why these edits cannot start. ``usage`` is that of the previous run, by model."""

    steps: list[Step] = field(default_factory=list)
    shown: list[StepView] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    usage: list[ModelUsage] = field(default_factory=list)
    # Decisions that only the run makes.
    then: list[str] = field(default_factory=list)
    decisions: tuple[Decision, ...] = ()

    @property
    def calls(self) -> int:
        """The number of model calls that the previous run needed for what runs."""
        return sum(used.calls for used in self.usage)

    @property
    def tokens(self) -> int:
        return sum(used.tokens for used in self.usage)

    @property
    def cost(self) -> Cost:
        """What these calls would cost at the present prices."""
        return current_prices().cost(self.usage) if self.usage else UNKNOWN

    @property
    def rerun(self) -> set[str]:
        """The finished units whose stored output will be replaced."""
        return {step.unit for step in self.steps if step.action is Action.AGAIN}

    @property
    def stale(self) -> list[Step]:
        """The kept units whose outputs were made with an input that changed."""
        return [step for step in self.steps if step.stale]

    @property
    def running_count(self) -> int:
        return sum(step.action in RUNNING for step in self.steps)

    @property
    def may_run(self) -> bool:
        """Whether any unit runs, or may run."""
        return self.running_count > 0 or any(step.action is Action.MAY for step in self.steps)


def preview_plan(
    contents: Contents,
    edits: Edits,
    last: Contents | None = None,
    is_fork: bool = True,
    source: Any = None,
) -> PlanPreview:
    """The plan of these edits.

    The cost is estimated from ``last``, the run's furthest checkpoint. ``source`` is what the engine read in
    the entry point's source. If nothing is left to run, a fork creates a branch, and a resume is refused.
    """
    preview, engine = PlanPreview(), engine_of(contents)
    kind = kind_of(engine, contents.kind)
    try:
        preview.steps = engine.plan(contents, edits, source, is_fork=is_fork)
    except EditRefused as refused:
        preview.refusals.append(translate(refused))
        preview.steps = _plan_without_conflicts(contents, edits)
    preview.shown = [_shown(step, kind, edits) for step in preview.steps]
    outlook = engine.outlook(contents, source)
    preview.decisions = outlook.decisions
    preview.then = [labels.decision_text(decision) for decision in outlook.decisions]
    preview.notes = [translate(note) for note in outlook.notes]
    preview.notes += _notes(contents, kind, preview, edits, is_fork)
    preview.usage = usage_by_model(engine.previous_calls(contents, last, preview.steps))
    return preview


def _plan_without_conflicts(contents: Contents, edits: Edits) -> list[Step]:
    """The plan without the refused edits, so that a person can undo a choice; empty if there is none."""
    without = Edits(inputs=edits.inputs, again=edits.again, keep=edits.keep - edits.again)
    try:
        return engine_of(contents).plan(contents, without)
    except EditRefused:
        return []


def _shown(step: Step, kind: RootKind, edits: Edits) -> StepView:
    if not kind.can_rerun:
        return StepView(step)
    if step.action is Action.KEPT:
        return StepView(step, "again")
    if step.unit in edits.again and step.action is Action.AGAIN:
        return StepView(step, "again", True)
    if kind.can_hold and step.action is Action.AGAIN:
        return StepView(step, "keep")
    if step.action is Action.PINNED and step.reason is Reason.HELD:
        return StepView(step, "keep", True)
    return StepView(step)


def _notes(
    contents: Contents, kind: RootKind, preview: PlanPreview, edits: Edits, is_fork: bool
) -> list[str]:
    notes: list[str] = []
    if kind.is_open_ended:
        return notes
    missing = engine_of(contents).missing_prompt(contents, edits)
    unit = {"unit": _(kind.unit_label)}
    if missing and preview.running_count:
        preview.refusals.append(translate(missing))
    elif preview.steps and not preview.may_run:
        if edits.inputs or edits.outputs:
            notes.append(_("No %(unit)s runs: the fork only contains your edits.") % unit)
        elif is_fork:
            text = _("No %(unit)s runs and no model is called: the fork is a new branch from here.")
            notes.append(text % unit)
        elif not preview.refusals:
            preview.refusals.append(_("Nothing is left to run: fork it, or choose an earlier checkpoint."))
    return notes


# What a fork or resume would do, and why it may not start. Nothing is started here.


@dataclass(slots=True, kw_only=True)
class CheckpointPreview(CheckedLaunch):
    """What happens when runs from a checkpoint call tools and models."""

    request: CheckpointRequest
    # Whether an edited state may lead to any unit.
    is_edited: bool = False
    recorded: RecordedTools = field(default_factory=RecordedTools)
    answers: RecordedAnswers = field(default_factory=RecordedAnswers)

    @property
    def tools(self) -> list[ToolView]:
        """The tools that the runs may call, with their recorded calls and what happens to new ones."""
        return tool_views(self.recorded, self.request)

    @property
    def model_note(self) -> str:
        """What happens instead of model calls; empty if models are called."""
        return model_note(self.request, self.answers)

    @property
    def options(self) -> Options:
        """The options that each runner reads, with what happens when it calls tools, and the commit."""
        chosen = with_calls(super(CheckpointPreview, self).options, self.request, self.recorded, self.answers)
        if commit := self.request.commit:
            chosen["commit"] = commit
        return chosen

    def add_findings(self, check: PreflightCheck | None) -> None:
        """Add the findings, and the tools of the code that they name."""
        super(CheckpointPreview, self).add_findings(check)
        if self.findings:
            engine = engine_of(self.request.contents)
            others = engine.tools_of_code(self.findings.report, is_edited=self.is_edited)
            self.recorded = replace(self.recorded, others=[*self.recorded.others, *others])


@dataclass(slots=True, kw_only=True)
class LaunchPreview(CheckpointPreview):
    """The preview of a request, whose edits include those that ``again_stale`` adds."""

    request: ForkRequest
    plan: PlanPreview
    redacted_parts: list[str] = field(default_factory=list)
    other_host: OtherHostCheck = field(default_factory=OtherHostCheck)

    @property
    def needs_preflight(self) -> bool:
        """Whether a preflight check is useful: no other refusal is final."""
        passable = {Code.BRANCH, Code.REDACTED_PARTS, Code.CODE}
        is_known = self.request.project is not None and self.away is None
        return is_known and all(one.code in passable for one in self.checks)

    @property
    def plan_digest(self) -> str:
        """A digest of the plan, its commit and the copy that another host starts from.

        A form sends the digest of the plan that it showed.
        """
        steps = "\n".join(f"{step.unit} {step.action}" for step in self.plan.steps)
        text = f"{self.request.commit}\n{self.other_host.copy}\n{steps}"
        return sha256(text.encode()).hexdigest()[:16]

    @property
    def redacted_digest(self) -> str:
        """The digest that a form sends to accept exactly these redacted parts."""
        return digest_of(self.redacted_parts)

    @property
    def accepts_redacted(self) -> bool:
        return self.request.accepted.redacted_parts in (ACCEPT_ALL, self.redacted_digest)

    @property
    def warnings(self) -> list[str]:
        """What a person should know before it starts."""
        return [one for one in (self.unrestored, self.stale_agents) if one]

    @property
    def unrestored(self) -> str:
        """What a run without the project's code would lack; empty if a preflight check has the details."""
        return "" if self.findings else unrestored(self.request)

    @property
    def stale_agents(self) -> str:
        """The agents that would continue with the former value of an edited input."""
        request = self.request
        if request.entry_point or not self.plan.running_count:
            return ""
        former = engine_of(request.contents).former_values(request.contents, request.edits)
        return translate(former) if former else ""


def preview_launch(request: ForkRequest, taken: Collection[str] | None = None) -> LaunchPreview:
    """The plan of a fork or resume, the reasons why it cannot start, and its warnings.

    ``taken`` are the branches of its location, which are read if they are not given.
    """
    contents, is_fork = request.contents, request.kind == Job.Kind.FORK
    source = source_of(request)
    plan = preview_plan(contents, request.edits, request.furthest, is_fork, source)
    if is_fork and request.again_stale and plan.stale:
        again = request.edits.again | {step.unit for step in plan.stale}
        edits = replace(request.edits, again=again, keep=request.edits.keep - again)
        request = replace(request, edits=edits)
        plan = preview_plan(contents, edits, request.furthest, is_fork, source)
    is_edited = bool(request.edits.state or request.edits.as_node)
    recorded = recorded_tools(request.checkpoint, plan.steps, is_edited=is_edited)
    away = away_host(request.project)
    answers = answers_of(request)
    preview = LaunchPreview(request=request, plan=plan, away=away, recorded=recorded, answers=answers)
    preview.is_edited = is_edited
    preview.checks = source_refusals(request) + answer_refusals(answers) + quota_refusals(request)
    preview.other_host = check_other_host(request)
    preview.checks += preview.other_host.refusals
    if not request.checkpoint.has_no_copy:
        preview.checks += [Refusal(Code.PLAN, message) for message in plan.refusals]
    edits = request.edits
    preview.checks += text_refusals(edits.inputs, edits.outputs, edits.state, edits.answers)
    if request.checkpoint.state == Checkpoint.State.PRUNED:
        preview.redacted_parts = find_redacted_parts(contents, request.edits, plan.steps)
        if preview.redacted_parts and not preview.accepts_redacted:
            preview.checks.append(redacted_refusal(preview.redacted_parts))
    if request.checkpoint.location.is_only_read:
        is_draft = request.checkpoint.is_scratch or is_fork
        if not is_draft or request.into:
            preview.checks.append(Refusal(Code.PUBLISH, translate(UserMessage("saver.no_runs"))))
    if is_fork:
        taken = request.location.taken_branches if taken is None else taken
        preview.checks += branch_refusals(request.branch, taken)
    elif _kind(request).resumes_last_only and not request.checkpoint.is_last:
        message = _("Only the last checkpoint of a run can be resumed. Fork this one instead.")
        preview.checks.append(Refusal(Code.CHECKPOINT, message))
    return preview


def in_project(preview: P, project: Project) -> P:
    """The preview in a project that became known after its plan."""
    checks = [one for one in preview.checks if one.code != Code.PROJECT]
    request = replace(preview.request, project=project)
    checks += [*project_refusals(project, request.options), *event_refusals(request)]
    checks += commit_refusals(request) if isinstance(request, CheckpointRequest) else []
    return replace(preview, request=request, checks=checks, away=away_host(project))


def _kind(request: CheckpointRequest) -> RootKind:
    return kind_of(engine_of(request.contents), request.contents.kind)


def unrestored(request: CheckpointRequest) -> str:
    """What a run without the project's code would lack; empty if nothing, or if it has the code."""
    missing = None if request.entry_point else engine_of(request.contents).missing_code(request.contents)
    return translate(missing) if missing else ""


def source_refusals(request: CheckpointRequest) -> list[Refusal]:
    """Why nothing can start from this checkpoint in this project."""
    kind = _kind(request)
    found = checkpoint_refusals(request.checkpoint, request.entry_point, kind)
    found += settings_refusals(request.settings, kind)
    found += [*project_refusals(request.project, request.options), *commit_refusals(request)]
    return [*found, *event_refusals(request)]


def source_of(request: CheckpointRequest) -> Any:
    """What the engine reads of the entry point's source; None without a project's folder."""
    if request.folder is None:
        return None
    contents = request.contents
    engine = engine_of(contents).name
    commit = request.commit
    asked = ReadSource(engine, str(request.folder), request.entry_point, contents.kind, commit)
    host = request.project.host_id if request.project else request.checkpoint.location.host_id
    return ask(asked, host=host)


def redacted_refusal(parts: Sequence[str]) -> Refusal:
    """The refusal if a person has to edit or accept these redacted parts."""
    message = _(
        "This checkpoint was pruned, and its stored copy lacks what was redacted in: %(places)s. Edit these, "
        "or accept sending them as they are."
    ) % {"places": ", ".join(parts)}
    return Refusal(Code.REDACTED_PARTS, message, "accept-hidden", _("Redacted parts"))


# What would run next after a fork's edits, for each unit that they can be attributed to.


@dataclass(frozen=True, slots=True)
class NextUnits:
    """``unit`` is empty if the engine decides. ``after`` has the edited entries of the state as texts."""

    unit: str
    following: tuple[str, ...]
    error: str = ""
    after: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The next units for each unit, or why they are unknown."""

    units: tuple[NextUnits, ...] = ()
    refused: str = ""
    refusals: tuple[Refusal, ...] = ()

    @property
    def after(self) -> Mapping[str, str]:
        """The values of the edited entries afterwards, equal for every unit; empty if unknown."""
        return next((one.after for one in self.units if one.after), {})


def ask_next(request: ForkRequest) -> Asked:
    """Ask the project's code what runs next. Waits for the answer. Nothing runs or is written."""
    if not _kind(request).adds_to_state or request.project is None:
        return Asked()
    if host := away_host(request.project):
        return Asked(
            refused=_("%(host)s does not answer, so what runs next is unknown.") % {"host": host.name}
        )
    if refusals := source_refusals(request):
        return Asked(refused=" ".join(messages_of(refusals)), refusals=tuple(refusals))
    try:
        asked = ListNextUnits(
            request.checkpoint.pk,
            request.project.pk,
            request.entry_point,
            request.edits,
            request.commit,
        )
        found = ask(asked)
    except JobRefused as refused:
        return Asked(refused=translate(refused))
    return Asked(tuple(_read(one) for one in found))


def _read(one: Mapping[str, Any]) -> NextUnits:
    return NextUnits(
        str(one.get("node") or ""),
        tuple(str(name) for name in one.get("next") or ()),
        str(one.get("error") or ""),
        {str(name): str(text) for name, text in (one.get("after") or {}).items()},
    )


# What has changed in a project's code since the job ran that wrote a checkpoint.


MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """The code that the job recorded, and the files that have changed since.

    ``has_commit``: whether the recorded commit can be run, as the project's repository has it.
    """

    code: RecordedCode
    files: list[ChangedFile]
    has_commit: bool = False

    @property
    def sentence(self) -> str:
        """How many files have changed."""
        if not self.files and self.code.is_complete:
            return gettext("The code has not changed since this ran.")
        if not self.files:
            return gettext("The recorded files have not changed since this ran. The project has more.")
        text = ngettext(
            "%(count)s file changed since this ran.",
            "%(count)s files changed since this ran.",
            len(self.files),
        )
        return text % {"count": count_text(len(self.files))}

    @property
    def commit_note(self) -> str:
        """Why running the recorded commit may differ from the recorded run; empty if nothing is known."""
        if self.code.is_dirty:
            return gettext(
                "The code differed from this commit when the run started, so the recorded state cannot be "
                "reproduced exactly."
            )
        if self.code.is_dirty is None:
            return gettext("It is not known whether the code differed from this commit when the run started.")
        return ""

    @property
    def shown(self) -> list[ChangedFile]:
        return self.files[:MAX_SHOWN]

    @property
    def left_out(self) -> int:
        return len(self.files[MAX_SHOWN:])


def code_changes(checkpoint: Checkpoint, project: Project | None) -> CodeChanges | None:
    """Return what has changed in this project since the checkpoint was written.

    The project may be that of another host on which the checkpoint is forked. None if no job of the
    checkpoint's project wrote it, if none of its code was recorded, or if the host is away.
    """
    code = RecordedCode.of(checkpoint, project)
    if code is None or project is None:
        return None
    try:
        found = ask(ListCodeChanges(project.pk, code.pk))
    except HostAway:
        return None
    return CodeChanges(code, found.files, found.has_commit)
