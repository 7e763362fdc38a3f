"""The plan preview: the steps of a fork or resume, its refusals and its estimated cost."""

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.planning.outlook import Decision
from viewer.engines.planning.plan import Action, EditRefused, Edits, Reason, Step
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.root_kinds import RootKind
from viewer.messages import labels
from viewer.messages.translation import translate

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
    """``refusals`` say why these edits cannot start. ``calls`` and ``tokens`` estimate the cost."""

    steps: list[Step] = field(default_factory=list)
    shown: list[StepView] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    # Decisions that only the run makes.
    then: list[str] = field(default_factory=list)
    decisions: tuple[Decision, ...] = ()

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
    preview.calls, preview.tokens = engine.cost(contents, last, preview.steps)
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
