"""What will happen, as the form says it before anything runs: the plan, its refusals, what it may cost."""

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.plan import Action, EditRefused, Edits, Reason, Step
from viewer.engines.protocol import Contents, RootKind, kind_of
from viewer.messages import labels

RUNNING = (Action.AGAIN, Action.RUNS)


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One line of the plan in words. ``choice`` names what a person may tick: again, keep or nothing."""

    step: Step
    choice: str = ""
    is_chosen: bool = False

    @property
    def sign(self) -> str:
        return labels.action_sign(self.step.action)

    @property
    def word(self) -> str:
        return labels.action_word(self.step.action)

    @property
    def reason(self) -> str:
        return labels.reason_words(self.step.reason)

    @property
    def stale(self) -> str:
        return labels.stale_words(self.step.stale)


@dataclass(slots=True)
class Promise:
    """``refusals`` tell why it cannot start; it can where there are none."""

    steps: list[Step] = field(default_factory=list)
    shown: list[ShownStep] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    # Decisions that are left to the run.
    then: list[str] = field(default_factory=list)

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


def promise_of(
    contents: Contents,
    edits: Edits,
    last: Contents | None = None,
    is_fork: bool = True,
    source: Any = None,
) -> Promise:
    """What these edits lead to. ``last`` is where the run got furthest, for what the steps cost last time;
    ``source`` is what the engine read of the entry point's source.

    A fork with nothing left to run still gives the checkpoint a branch; a resume would do nothing.
    """
    promise, engine = Promise(), engine_of(contents)
    kind = kind_of(engine, contents.kind)
    try:
        promise.steps = engine.plan(contents, edits, source)
    except EditRefused as refused:
        promise.refusals.append(labels.told(refused))
        promise.steps = _plan_without_conflicts(contents, edits)
    promise.shown = [_shown(step, kind, edits) for step in promise.steps]
    outlook = engine.outlook(contents, source)
    promise.then = [labels.decision_words(decision) for decision in outlook.decisions]
    promise.notes = [labels.told(note) for note in outlook.notes]
    promise.notes += _notes(contents, kind, promise, edits, is_fork)
    promise.calls, promise.tokens = engine.cost(contents, last, promise.steps)
    return promise


def _plan_without_conflicts(contents: Contents, edits: Edits) -> list[Step]:
    """The plan beside a refusal, so that a choice can be taken back; empty where there is none."""
    calm = Edits(inputs=edits.inputs, again=edits.again, keep=edits.keep - edits.again)
    try:
        return engine_of(contents).plan(contents, calm)
    except EditRefused:
        return []


def _shown(step: Step, kind: RootKind, edits: Edits) -> ShownStep:
    if not kind.can_rerun:
        return ShownStep(step)
    if step.action is Action.KEPT:
        return ShownStep(step, "again")
    if step.unit in edits.again and step.action is Action.AGAIN:
        return ShownStep(step, "again", True)
    if kind.can_hold and step.action is Action.AGAIN:
        return ShownStep(step, "keep")
    if step.action is Action.PINNED and step.reason is Reason.HELD:
        return ShownStep(step, "keep", True)
    return ShownStep(step)


def _notes(contents: Contents, kind: RootKind, promise: Promise, edits: Edits, is_fork: bool) -> list[str]:
    notes: list[str] = []
    if kind.is_open_ended:
        return notes
    missing = engine_of(contents).missing_prompt(contents, edits)
    unit = {"unit": _(kind.unit_label)}
    if missing and promise.running_count:
        promise.refusals.append(labels.told(missing))
    elif promise.steps and not promise.running_count:
        if edits.inputs or edits.outputs:
            notes.append(_("No %(unit)s runs: the fork only holds what you changed.") % unit)
        elif is_fork:
            text = _("No %(unit)s runs and no model is called: the fork is a branch of its own from here.")
            notes.append(text % unit)
        elif not promise.refusals:
            promise.refusals.append(_("Nothing is left to run: fork it, or choose an earlier checkpoint."))
    return notes
