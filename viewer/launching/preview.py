"""What a fork or resume would do, what it costs, and why it may not start, here or on another host.

Nothing is started here.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer import host_requests
from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import Action, Decision, Edits, Plan, Reason, Step
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.recorded_calls import RecordedAnswers, RecordedTools
from viewer.engines.runner_protocol import Options
from viewer.formats import count_text
from viewer.host_requests import CompareCode, HostAway, NotReadable, Redact, ask
from viewer.launching import labels
from viewer.launching.calls import ToolView, answer_refusals, model_note, tool_views, with_calls
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    Refusal,
    branch_refusals,
    checkpoint_refusals,
    code_refusals,
    digest_of,
    find_redacted_parts,
    messages_of,
    quota_refusals,
    settings_refusals,
    text_refusals,
)
from viewer.launching.requests import ACCEPT_ALL, CheckpointRequest, ForkRequest
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project, RecordedCode
from viewer.records.bodies import copy_digest, copy_to_send
from viewer.records.prices import UNKNOWN, Cost, current_prices
from viewer.records.recorded_calls import recorded_answers, recorded_tools

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


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """The plan of a checkpoint with these ``contents``, as people read it."""

    contents: Contents
    plan: Plan
    is_fork: bool = True

    @property
    def kind(self) -> RootKind:
        return kind_of(engine_of(self.contents), self.contents.kind)

    @property
    def steps(self) -> list[Step]:
        return self.plan.steps

    @property
    def shown(self) -> list[StepView]:
        return [_shown(step, self.kind, self.plan.edits) for step in self.steps]

    @property
    def refusals(self) -> list[str]:
        """Why these edits cannot start. A fork without anything left to run creates a branch."""
        found = [translate(self.plan.refused)] if self.plan.refused else []
        if self.kind.is_open_ended:
            return found
        if self.plan.missing_prompt and self.running_count:
            return [*found, translate(self.plan.missing_prompt)]
        has_edits = self.plan.edits.inputs or self.plan.edits.outputs
        if self.steps and not (self.may_run or self.is_fork or has_edits or found):
            return [_("Nothing is left to run: fork it, or choose an earlier checkpoint.")]
        return found

    @property
    def notes(self) -> list[str]:
        """What a person should read before the start."""
        notes = [translate(note) for note in self.plan.outlook.notes]
        if self.kind.is_open_ended or self.may_run or not self.steps:
            return notes
        text = ""
        if self.plan.edits.inputs or self.plan.edits.outputs:
            text = _("No %(unit)s runs: the fork only contains your edits.")
        elif self.is_fork:
            text = _("No %(unit)s runs and no model is called: the fork is a new branch from here.")
        return [*notes, text % {"unit": _(self.kind.unit_label)}] if text else notes

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Decisions that only the run makes."""
        return self.plan.outlook.decisions

    @property
    def then(self) -> list[str]:
        return [labels.decision_text(decision) for decision in self.decisions]

    @property
    def calls(self) -> int:
        """The number of model calls that the previous run needed for what runs."""
        return sum(used.calls for used in self.plan.usage)

    @property
    def tokens(self) -> int:
        return sum(used.tokens for used in self.plan.usage)

    @property
    def cost(self) -> Cost:
        """What these calls would cost at the present prices."""
        return current_prices().cost(self.plan.usage) if self.plan.usage else UNKNOWN

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


# Forks on another host that has the same project: where one can run, and why it cannot.
#
# A fork starts from the stored copy of the checkpoint, or from a copy of what it needs of its store, which
# the other host asks for. Nothing may have to be redacted in either. It writes to a location of the other
# host, never to that of the checkpoint.


@dataclass(frozen=True, slots=True)
class OtherHostCheck:
    """What a start on another host accepts, and what is known of both hosts.

    ``code`` identifies the code there, if it differs or may differ; empty if it is the same. ``copy`` is the
    digest of the stored copy; ``not_readable`` says why nothing can be sent. ``has_secret`` is whether a
    typed value is a secret of the checkpoint's project that the other host would not redact.
    """

    code: str = ""
    copy: str = ""
    not_readable: NotReadable | None = None
    has_location: bool = True
    has_secret: bool = False

    @property
    def accepted(self) -> dict[str, str]:
        """What the job's request records, and its host compares again before the start."""
        return {"code": self.code, "copy": self.copy}

    def refusals_of(self, request: ForkRequest) -> list[Refusal]:
        """Why the request cannot start on the other host; nothing for a fork on the checkpoint's own host."""
        if request.on is None:
            return []
        if self.not_readable:
            return [Refusal(Code.CHECKPOINT, self.not_readable)]
        found = []
        if not self.has_location:
            found.append(Refusal(Code.TARGET, _("This host has no location of the same project any more.")))
        if not request.entry_point:
            text = _(
                "Another host starts from the stored copy with the project's own code: name the entry point."
            )
            found.append(Refusal(Code.ENTRY_POINT, text, "entry-point", _("Entry point")))
        if request.into not in ("", request.target_on_other_host):
            text = _(
                "On another host, a fork is always written to the location there: choose no other target."
            )
            found.append(Refusal(Code.PUBLISH, text, "into"))
        if self.has_secret:
            text = _("Your edits contain a secret of %(host)s, and secrets do not leave their host.")
            host = request.checkpoint.location.host
            found.append(Refusal(Code.PLAN, text % {"host": host.name}))
        if self.code and request.accepted.code not in (ACCEPT_ALL, self.code):
            text = _(
                "The code on %(host)s is not the same, or it is not known to be. Accept it to start there."
            )
            text %= {"host": request.on.host.name}
            found.append(Refusal(Code.CODE, text, "accept-code", _("Code")))
        return found


def other_locations(checkpoint: Checkpoint) -> list[Location]:
    """Return the locations of other hosts to which forks may write: those of a project of the same name."""
    own = checkpoint.location
    if own.project is None or not own.project.name:
        return []
    found = Location.objects.filter(
        engine=own.engine,
        replaced_by="",
        project__confirmed_at__isnull=False,
        project__folder__endswith=f"/{own.project.name}",
    )
    states = Location.StoreKind.STATES
    others = found.exclude(host=own.host_id).select_related("project__host", "host", "pool")
    return [
        one
        for one in others.order_by("host__name", "path")
        if (one.store_kind == states if own.store_kind == states else one.takes_runs)
        and one.project
        and one.project.host_id == one.host_id
        and one.project.name == own.project.name
    ]


def check_other_host(request: ForkRequest) -> OtherHostCheck:
    """Ask both hosts what a start on the other one needs. Nothing is asked for a fork on the own host.

    While a host is away, a secret or a difference is not known: the other host checks it before the start.
    """
    if request.on is None:
        return OtherHostCheck()
    own, project = request.checkpoint.location, request.project
    recorded, others = RecordedCode.of(request.checkpoint, project), other_locations(request.checkpoint)
    edits, settings = request.edits, request.settings
    edited = (edits.inputs, edits.outputs, edits.state, edits.answers)
    typed = [dict(values or {}) for values in (*edited, settings.configurable, settings.context)]
    try:
        copy = copy_to_send(request.checkpoint, request.root_kind)
    except NotReadable as error:
        return OtherHostCheck(not_readable=error)
    code, has_secret = "", False
    with suppress(HostAway):
        if any(typed):
            try:
                there = ask(Redact(project.pk if project else None, typed))
            except HostAway:
                there = ask(Redact(None, typed))
            has_secret = ask(Redact(own.project_id, there)) != there
    with suppress(HostAway):
        if project and not request.uses_recorded_code:
            code = ask(CompareCode(project.pk, recorded.pk if recorded else None))
    return OtherHostCheck(code, copy_digest(copy), None, request.on in others, has_secret)


# What a fork or resume would do, and why it may not start. Nothing is started here.


@dataclass(slots=True, kw_only=True)
class CheckpointPreview(CheckedLaunch):
    """What happens when runs from a checkpoint call tools and models."""

    # The codes of refusals that are not final.
    passable: ClassVar[set[Code]]
    request: CheckpointRequest
    # Whether an edited state may lead to any unit.
    is_edited: bool = False
    recorded: RecordedTools = field(default_factory=RecordedTools)
    answers: RecordedAnswers = field(default_factory=RecordedAnswers)

    @property
    def needs_preflight(self) -> bool:
        """Whether a preflight check is useful: no other refusal is final."""
        is_known = self.request.project is not None and self.away is None
        return is_known and all(one.code in self.passable for one in self.checks)

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

    passable: ClassVar[set[Code]] = {Code.BRANCH, Code.REDACTED_PARTS, Code.CODE}
    request: ForkRequest
    plan: PlanPreview
    redacted_parts: list[str] = field(default_factory=list)
    other_host: OtherHostCheck = field(default_factory=OtherHostCheck)

    @property
    def plan_digest(self) -> str:
        """A digest of the plan, its commit and the copy that another host starts from.

        A form sends the digest of the plan that it showed.
        """
        steps = (f"{step.unit} {step.action}" for step in self.plan.steps)
        return digest_of([self.request.commit, self.other_host.copy, *steps])

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
        former = request.engine.former_values(request.contents, request.edits)
        return translate(former) if former else ""


def preview_launch(request: ForkRequest, taken: Collection[str] | None = None) -> LaunchPreview:
    """The plan of a fork or resume, the reasons why it cannot start, and its warnings.

    ``taken`` are the branches of its location, which are read if they are not given.
    """
    contents, is_fork = request.contents, request.kind == Job.Kind.FORK
    checks = source_refusals(request)
    other_host = check_other_host(request)
    source = ask(request.source, host=request.source_host) if request.folder else None
    again_stale = is_fork and request.again_stale
    plan = engine_of(contents).whole_plan(
        contents, request.edits, request.furthest, source, is_fork=is_fork, again_stale=again_stale
    )
    edits, shown = plan.edits, PlanPreview(contents, plan, is_fork)
    request, is_edited = replace(request, edits=edits), bool(edits.state or edits.as_node)
    over_quota = quota_refusals(request)
    recorded = recorded_tools(request.checkpoint, plan.steps, is_edited=is_edited)
    answers = recorded_answers(request.checkpoint) if request.calls_no_model else RecordedAnswers()
    checks += [*answer_refusals(answers), *over_quota, *other_host.refusals_of(request)]
    if not request.checkpoint.has_no_copy:
        checks += [Refusal(Code.PLAN, message) for message in shown.refusals]
    checks += text_refusals(edits.inputs, edits.outputs, edits.state, edits.answers)
    preview = LaunchPreview(
        request=request,
        plan=shown,
        checks=checks,
        recorded=recorded,
        answers=answers,
        is_edited=is_edited,
        other_host=other_host,
    )
    if request.checkpoint.state == Checkpoint.State.PRUNED:
        preview.redacted_parts = find_redacted_parts(contents, edits, plan.steps)
        if preview.redacted_parts and not preview.accepts_redacted:
            message = _(
                "This checkpoint was pruned, and its stored copy lacks what was redacted in: %(places)s. "
                "Edit these, or accept sending them as they are."
            ) % {"places": ", ".join(preview.redacted_parts)}
            checks.append(Refusal(Code.REDACTED_PARTS, message, "accept-hidden", _("Redacted parts")))
    if request.checkpoint.location.is_only_read:
        is_draft = request.checkpoint.is_scratch or is_fork
        if not is_draft or request.into:
            checks.append(Refusal(Code.PUBLISH, UserMessage("saver.no_runs")))
    if is_fork:
        taken = request.location.taken_branches if taken is None else taken
        checks += branch_refusals(request.branch, taken)
    elif shown.kind.resumes_last_only and not request.checkpoint.is_last:
        message = _("Only the last checkpoint of a run can be resumed. Fork this one instead.")
        checks.append(Refusal(Code.CHECKPOINT, message))
    return preview


def in_project(preview: P, project: Project) -> P:
    """The preview in a project that became known after its plan."""
    checks = [one for one in preview.checks if one.code != Code.PROJECT]
    request = replace(preview.request, project=project)
    return replace(preview, request=request, checks=[*checks, *code_refusals(request)])


def unrestored(request: CheckpointRequest) -> str:
    """What a run without the project's code would lack; empty if nothing, or if it has the code."""
    missing = None if request.entry_point else request.engine.missing_code(request.contents)
    return translate(missing) if missing else ""


def source_refusals(request: CheckpointRequest) -> list[Refusal]:
    """Why nothing can start from this checkpoint in this project."""
    found = checkpoint_refusals(request.checkpoint, request.entry_point, request.root_kind)
    return [*found, *settings_refusals(request.settings, request.root_kind), *code_refusals(request)]


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
    if not request.root_kind.adds_to_state or request.project is None:
        return Asked()
    if host := request.away:
        return Asked(
            refused=_("%(host)s does not answer, so what runs next is unknown.") % {"host": host.name}
        )
    if refusals := source_refusals(request):
        return Asked(refused=" ".join(messages_of(refusals)), refusals=tuple(refusals))
    try:
        asked = host_requests.ListNextUnits(
            request.checkpoint.pk,
            request.project.pk,
            request.entry_point,
            request.edits,
            request.commit,
        )
        found = ask(asked)
    except host_requests.JobRefused as refused:
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
    files: list[host_requests.ChangedFile]
    has_commit: bool = False

    @property
    def sentence(self) -> str:
        """How many files have changed."""
        if not self.files and self.code.is_complete:
            return _("The code has not changed since this ran.")
        if not self.files:
            return _("The recorded files have not changed since this ran. The project has more.")
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
            return _(
                "The code differed from this commit when the run started, so the recorded state cannot be "
                "reproduced exactly."
            )
        if self.code.is_dirty is None:
            return _("It is not known whether the code differed from this commit when the run started.")
        return ""

    @property
    def shown(self) -> list[host_requests.ChangedFile]:
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
        found = ask(host_requests.ListCodeChanges(project.pk, code.pk))
    except HostAway:
        return None
    return CodeChanges(code, found.files, found.has_commit)
