"""Why something cannot start: refusals, and what a preflight check found."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import DEFAULT as DEFAULT_ENGINE
from viewer.engines import all_engines, engine_named, engine_of
from viewer.engines.entry_points import GONE, PreflightLabels, RootKind
from viewer.engines.plan import Edits, RunSettings, Step
from viewer.engines.protocol import Contents, Engine
from viewer.engines.runner_protocol import Options
from viewer.host_requests import CheckCommit, CheckProject, HostAway, JobRefused, ListCheckpointEvents, ask
from viewer.launching.edits import has_redacted_part, is_utf8
from viewer.launching.labels import component_label, loss_label, match_texts, note_text
from viewer.launching.options import EVENTS, EVERY_EVENT
from viewer.launching.requests import ACCEPT_ALL, CheckpointRequest, LaunchOptions, LaunchRequest
from viewer.messages.message import UserMessage, message_from
from viewer.messages.translation import translate
from viewer.models import AcceptedEffect, Checkpoint, Host, PreflightCheck, Project
from viewer.records.limits import quota_refusal
from viewer.records.lineage.tree import BranchRefused, checked_branch


class Code(StrEnum):
    """What a refusal is about."""

    CHECKPOINT = "checkpoint"
    HOST = "host"
    PROJECT = "project"
    COMMIT = "commit"
    PLAN = "plan"
    BRANCH = "branch"
    ENTRY_POINT = "entry-point"
    REDACTED_PARTS = "redacted-parts"
    EFFECTS = "effects"
    PREFLIGHT = "preflight"
    VARIATIONS = "variations"
    TARGET = "target"
    CODE = "code"
    PUBLISH = "publish"
    SCORE = "score"
    REPLAY = "replay"
    EVENTS = "events"
    INPUTS = "inputs"
    QUOTA = "quota"
    START = "start"
    SEND_AGAIN = "send-again"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason. ``field`` is the id of the form field that can resolve it, ``label`` its label, if any."""

    code: Code
    reason: str | UserMessage | Exception
    field: str = ""
    label: str = ""

    @property
    def message(self) -> str:
        """The reason in the reader's language."""
        return translate(self.reason)


class LaunchRefused(Exception):
    """Nothing was started, for these reasons."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = list(refusals)
        super().__init__(" ".join(messages_of(self.refusals)))


def messages_of(refusals: Iterable[Refusal]) -> list[str]:
    """The translated messages, each once."""
    return list(dict.fromkeys(refusal.message for refusal in refusals))


def checkpoint_refusals(checkpoint: Checkpoint, entry_point: str, kind: RootKind) -> list[Refusal]:
    """Why nothing can start from this checkpoint."""
    found = []
    if not kind.is_runnable:
        found.append(Refusal(Code.CHECKPOINT, _("No run can start from a checkpoint of this kind.")))
    if checkpoint.location.replaced_by:
        message = _(
            "The location was replaced after it was added. Open its page, and accept the replacement if you "
            "expected it."
        )
        found.append(Refusal(Code.CHECKPOINT, message))
    if checkpoint.state == Checkpoint.State.WRITING:
        message = _("This checkpoint is still being written. Try again in a moment.")
        found.append(Refusal(Code.CHECKPOINT, message))
    if checkpoint.state == Checkpoint.State.BROKEN:
        message = _(
            "This checkpoint can no longer be read at its location, so no run can start from it. "
            "Choose another one."
        )
        found.append(Refusal(Code.CHECKPOINT, message))
    found += copy_refusals(checkpoint)
    if checkpoint.state == Checkpoint.State.PRUNED and not entry_point and not kind.needs_source:
        message = _(
            "This checkpoint was pruned at its location, and its stored copy lacks what was redacted. A run "
            "needs the project's own code, which has its keys and components: name it under “Entry point”, "
            "or add it to the project."
        )
        found.append(Refusal(Code.CHECKPOINT, message))
    if checkpoint.state == Checkpoint.State.PRUNED and kind.needs_source:
        message = _("This checkpoint was pruned at its location, so no run can start from it.")
        found.append(Refusal(Code.CHECKPOINT, message))
    if kind.needs_entry_point and not entry_point:
        message = _(kind.needs_entry_point)
        found.append(Refusal(Code.ENTRY_POINT, message, "entry-point", _("Entry point")))
    return found


def copy_refusals(checkpoint: Checkpoint) -> list[Refusal]:
    """Why nothing can be read of this checkpoint."""
    if not checkpoint.has_no_copy:
        return []
    message = _(
        "This checkpoint was pruned at its location, and its stored copy was deleted as well. Nothing can "
        "start from it. Choose another one."
    )
    return [Refusal(Code.CHECKPOINT, message)]


def project_refusals(project: Project | None, options: LaunchOptions) -> list[Refusal]:
    """Why nothing can run in this project.

    If its host is away and the start is to wait for it, the host checks the project when it returns.
    """
    if project is None or not project.is_confirmed:
        message = _("The project of this location is not confirmed: nothing may run in it yet.")
        return [Refusal(Code.PROJECT, message)]
    if host := project.away_host:
        message = _("%(host)s does not answer: queue the start, or try again when it is back.")
        refusal = Refusal(Code.HOST, message % {"host": host.name}, "waits-for-host", _("Host"))
        return [] if options.waits_for_host else [refusal]
    try:
        ask(CheckProject(project.pk))
    except JobRefused as refused:
        return [Refusal(Code.PROJECT, refused)]
    return []


def code_refusals(request: LaunchRequest) -> list[Refusal]:
    """Why the project, the recorded commit or the chosen events of a request cannot be used.

    A host that is away checks them when it is back.
    """
    found, project = project_refusals(request.project, request.options), request.project
    if project is None:
        return found
    if isinstance(request, CheckpointRequest) and request.uses_recorded_code:
        message, commit = "", request.commit
        if not commit:
            message = _(
                "No commit was recorded for this checkpoint: only a checkpoint that a job of this project "
                "wrote, in a git repository, has one."
            )
        try:
            with suppress(HostAway):
                ask(CheckCommit(project.pk, commit)) if commit else None
        except JobRefused as refused:
            message = translate(refused)
        if message:
            found.append(Refusal(Code.COMMIT, message, "code", _("Code")))
    names, engine = set(request.checkpointing.get("events", ())) - {EVERY_EVENT}, request.engine
    if names and not project.away_host:
        groups = ask(ListCheckpointEvents(engine.name, project.interpreter), host=project.host_id)
        if unknown := sorted(names.difference(*(group.events for group in groups))):
            message = _("The project's %(engine)s does not know these events: %(names)s.")
            values = {"engine": engine.title, "names": ", ".join(unknown)}
            found.append(Refusal(Code.EVENTS, message % values, "checkpoint-events", str(EVENTS.label)))
    return found


def quota_refusals(request: LaunchRequest, runs: int = 1) -> list[Refusal]:
    """Why quotas of the person's teams do not allow this number of runs at present."""
    person = request.requested_by
    reason = quota_refusal(person.pk, runs, request.options.start_at) if person else None
    return [Refusal(Code.QUOTA, reason)] if reason else []


def settings_refusals(settings: RunSettings, kind: RootKind) -> list[Refusal]:
    """Why a run of this kind cannot have these settings."""
    if not settings or kind.has_run_settings:
        return text_refusals(settings.configurable, settings.context)
    message = _("A %(kind)s has no breakpoints, configurable values or context.")
    return [Refusal(Code.PLAN, message % {"kind": _(kind.label)})]


def text_refusals(*values: Mapping[str, Any] | None) -> list[Refusal]:
    """Why no run can have these values: a text of them, or a name, cannot be written as UTF-8."""
    message = _("The value of %(name)s is not UTF-8 text.")
    named = [(name, value) for some in values for name, value in (some or {}).items()]
    return [
        Refusal(Code.PLAN, message % {"name": name.encode("utf-8", "backslashreplace").decode()})
        for name, value in named
        if not is_utf8([name, value])
    ]


def branch_refusals(branch: str, taken: Iterable[str]) -> list[Refusal]:
    """Why no new branch can have this name."""
    try:
        checked_branch(branch, set(taken))
    except BranchRefused as refused:
        return [Refusal(Code.BRANCH, refused, "branch", _("Branch"))]
    return []


class AlreadyStarted(LaunchRefused):
    """Another request with this key has started something else. A new key is needed."""

    def __init__(self) -> None:
        message = _("This form has already started a run. To start another one, press the button again.")
        super().__init__([Refusal(Code.SEND_AGAIN, message)])


def plan_changed() -> LaunchRefused:
    """The refusal of a form that showed an outdated plan."""
    message = _("The plan has changed with your last edit. Check it, and press the button again.")
    return LaunchRefused([Refusal(Code.SEND_AGAIN, message)])


# Redacted parts of a checkpoint's stored copy that a run would send to a model.


def find_redacted_parts(contents: Contents, edits: Edits, steps: Sequence[Step]) -> list[str]:
    """A label for each redacted part that the run reads and no edit replaces.

    The original checkpoint contains these values; the stored copy of a pruned one does not.
    """
    values = engine_of(contents).values_read(contents, edits, steps)
    return [translate(one.label) for one in values if has_redacted_part(one.value)]


def digest_of(parts: Sequence[str]) -> str:
    """A short digest of texts, such as redacted parts, by which a form names exactly what it has shown."""
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


# The findings of a preflight check, with a person's answers: what is lost, and why the run cannot start.


Effects = Sequence[Mapping[str, Any]]
# The id of the button that starts a preflight check.
UNCHECKED = "check"


@dataclass(slots=True)
class MatchChoice:
    """One possible answer."""

    value: str
    text: str
    is_chosen: bool = False


@dataclass(slots=True)
class MatchQuestion:
    """The match of a stored component in the project. ``error`` is set until it is answered."""

    kind: str
    saved: str
    html_id: str
    label: str
    why: str
    choices: list[MatchChoice]
    answer: str = ""
    error: str = ""

    @property
    def html_name(self) -> str:
        return f"match:{self.saved}"


@dataclass(frozen=True, slots=True)
class Effect:
    """``kind`` is its label; ``detail`` says which part of the checkpoint causes it."""

    kind: str
    name: str
    detail: str


@dataclass(slots=True)
class Findings:
    """What the check found. ``losses`` maps the name by which each is accepted to its label."""

    check: PreflightCheck
    questions: list[MatchQuestion] = field(default_factory=list)
    losses: dict[str, str] = field(default_factory=dict)
    restored: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    accepted: bool = False
    # Effects that were not accepted for the project, and effects that were.
    new_effects: list[Effect] = field(default_factory=list)
    accepted_effects: list[Effect] = field(default_factory=list)
    effects_mark: str = ""

    @property
    def is_unchecked(self) -> bool:
        """Whether a person has to start the check."""
        return self.check.status == PreflightCheck.Status.UNCHECKED or self.check.is_outdated

    @property
    def is_known(self) -> bool:
        """Whether losses are known: the check has ended, and did not stop at unaccepted effects."""
        return self.check.is_done and self.report.get("is_complete", True)

    @property
    def is_under_way(self) -> bool:
        return not (self.check.has_ended or self.is_unchecked)

    @property
    def has_failed(self) -> bool:
        return self.check.status == PreflightCheck.Status.FAILED

    @property
    def report(self) -> Mapping[str, Any]:
        """The runner's report (see viewer/engines/runner_protocol.py); empty without one."""
        return dict(self.check.report)

    @property
    def blocks(self) -> list[str]:
        """Reasons that cannot be resolved by accepting something."""
        return [translate(message_from(block)) for block in self.report.get("blocks") or []]

    @property
    def notes(self) -> list[str]:
        labels = engine_of_check(self.check).preflight_labels
        return [note_text(labels, note) for note in self.report.get("notes") or []]

    @property
    def is_of_new_run(self) -> bool:
        return self.check.is_of_new_run

    @property
    def needs_acceptance(self) -> bool:
        """Whether a person has to accept losses, known or unknown. A new run loses nothing."""
        if self.is_of_new_run or self.is_unchecked or self.new_effects:
            return False
        return bool(self.losses) or not self.is_known

    @property
    def mark(self) -> str:
        """A digest of what a person accepts: these losses of this check, or that they are unknown."""
        seen = ["known", *sorted(self.losses)] if self.is_known else ["unknown"]
        return digest_of([self.check.fingerprint, *seen])

    @property
    def refusals(self) -> list[Refusal]:
        """The blocks, the open questions, and what has to be accepted before the start."""
        found = [Refusal(Code.PREFLIGHT, message) for message in self.blocks]
        for one in self.questions:
            if one.error:
                found.append(Refusal(Code.PREFLIGHT, one.error, one.html_id, one.label))
        if self.new_effects:
            return [*found, effects_refusal()]
        if self.is_unchecked and not self.is_of_new_run:
            return [*found, Refusal(Code.PREFLIGHT, _("run it first"), UNCHECKED, _("Preflight check"))]
        if not self.needs_acceptance or self.accepted:
            return found
        if self.is_known:
            message = _("something is lost: accept it, or name the code that has it under “Entry point”")
        elif self.is_under_way:
            message = _("the preflight check is not finished: wait for it, or accept starting without it")
        else:
            message = _("the losses are unknown: accept starting anyway")
        return [*found, Refusal(Code.PREFLIGHT, message, "accepted", _("Before it starts"))]

    @property
    def options(self) -> Options:
        """The answers as the runner reads them. The runner refuses every loss that is not accepted."""
        answers = {one.saved: one.answer for one in self.questions if one.answer}
        losses = (sorted(self.losses) if self.is_known else [ACCEPT_ALL]) if self.accepted else []
        options = Options(accepted=losses)
        return {**options, "matches": answers} if answers else options


@dataclass(slots=True, kw_only=True)
class CheckedLaunch:
    """Why a launch cannot start: ``checks`` of the request, and ``findings`` of its preflight check."""

    request: LaunchRequest
    checks: list[Refusal] = field(default_factory=list)
    findings: Findings | None = None

    @property
    def away(self) -> Host | None:
        """The host, if it does not answer. What only it knows is not checked: the runner does it there."""
        return self.request.away

    @property
    def refusals(self) -> list[Refusal]:
        """Every reason why it cannot start, including those of the preflight check."""
        return [*self.checks, *(self.findings.refusals if self.findings else [])]

    @property
    def options(self) -> Options:
        """The options that the runner reads, with the accepted losses and the answers."""
        request = self.request
        options = request.run_options
        if self.findings:
            options.update(self.findings.options)
            return options
        # Nothing was checked. The runner refuses whatever is missing.
        options["accepted"] = [ACCEPT_ALL] if request.accepted.losses == ACCEPT_ALL else []
        if request.answers:
            options["matches"] = dict(request.answers)
        return options

    def add_findings(self, check: PreflightCheck | None) -> None:
        """Add the findings of the request's preflight check, if there is one."""
        if check:
            self.findings = read_findings(check, self.request.answers, self.request.accepted.losses)


def read_findings(check: PreflightCheck, answers: Mapping[str, str], accepted: str) -> Findings:
    """The findings of this check. ``accepted`` is the ``mark`` of the findings that a person accepted."""
    new = check.new_effects
    findings = Findings(check, effects_mark=effects_digest(check))
    engine = engine_of_check(check)
    labels = engine.preflight_labels
    for number, question in enumerate(check.report.get("questions") or [], 1):
        findings.questions.append(_question(labels, number, question, answers))
    for part in engine.components_in(check.report):
        if part.fate == "lost":
            findings.losses[part.loss_name] = loss_label(labels, part)
        else:
            (findings.rebuilt if part.fate == "project" else findings.restored).append(
                component_label(labels, part)
            )
    for effect in check.effects:
        is_new = any(effect["key"] == one["key"] for one in new)
        (findings.new_effects if is_new else findings.accepted_effects).append(_effect(effect))
    _refuse_repeated_answers(findings.questions)
    matched = {one.saved: one.answer for one in findings.questions if not one.error}
    for part in engine.unmatched(check.report, matched):
        findings.losses[part.loss_name] = loss_label(labels, part)
    findings.accepted = accepted in (ACCEPT_ALL, findings.mark)
    return findings


def effects_refusal() -> Refusal:
    """The refusal if effects have to be accepted first."""
    message = _("The checkpoint has effects that nobody has accepted for this project.")
    return Refusal(Code.EFFECTS, message, "accept-effects", _("Effects"))


def effects_digest(check: PreflightCheck) -> str:
    """A digest of the effects of this check that are not accepted yet."""
    keys = sorted(effect["key"] for effect in check.new_effects)
    return digest_of([check.fingerprint, *keys])


def engine_of_check(check: PreflightCheck) -> Engine[Any]:
    """The engine of the checkpoint, or of the root kind that a new run has."""
    if check.checkpoint:
        return engine_of(check.checkpoint.location)
    return next((one for one in all_engines() if check.entity in one.kinds), engine_named(DEFAULT_ENGINE))


def _effect(effect: Mapping[str, Any]) -> Effect:
    kind = str(effect["kind"])
    known = dict(AcceptedEffect.Kind.choices)
    return Effect(str(known.get(kind, kind)), str(effect["name"]), str(effect.get("detail") or ""))


def _question(
    labels: PreflightLabels, number: int, question: Mapping[str, Any], answers: Mapping[str, str]
) -> MatchQuestion:
    label, why, gone = match_texts(labels, question)
    answer = answers.get(question["saved"], "")
    form = "{0}. {1}" if question["kind"] in labels.numbered_matches else "{1}"
    choices = [
        MatchChoice(value, gone if value == GONE else form.format(value, title), value == answer)
        for value, title in question["choices"]
    ]
    made = MatchQuestion(question["kind"], question["saved"], f"match-{number}", label, why, choices)
    if any(choice.is_chosen for choice in choices):
        made.answer = answer
    else:
        made.error = _("choose which one it is")
    return made


def _refuse_repeated_answers(questions: Sequence[MatchQuestion]) -> None:
    """Refuse a component of the project that is the answer to several questions."""
    given = [(one.kind, one.answer) for one in questions]
    for one in questions:
        if one.answer not in ("", GONE) and given.count((one.kind, one.answer)) > 1:
            one.error = _("it was chosen twice")
