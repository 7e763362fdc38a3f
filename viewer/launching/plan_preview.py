"""What will happen, as the form says it before anything runs: the plan, its refusals, what it may cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from viewer.engines.crewai.agent_prompt import agent_prompt
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.contents.events import Event
from viewer.engines.crewai.flow_plan import FlowMethod, Following, following
from viewer.engines.crewai.plan import plan_of
from viewer.engines.plan import Action, EditRefused, Edits, Reason, Step, Unit
from viewer.launching.stale_inputs import inputs_used
from viewer.messages import labels

# The answers of routers are texts; what is longer is no label.
MAX_LABEL = 200
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
    # What a flow's routers decide.
    then: list[str] = field(default_factory=list)

    @property
    def rerun(self) -> set[str]:
        """The finished tasks whose stored output will be replaced."""
        return {step.unit for step in self.steps if step.action is Action.AGAIN}

    @property
    def stale(self) -> list[Step]:
        """The kept tasks whose texts were made with an input that changed."""
        return [step for step in self.steps if step.stale]

    @property
    def running_count(self) -> int:
        return sum(step.action in RUNNING for step in self.steps)


def units_of(contents: Contents) -> list[Unit]:
    """The units of work of a checkpoint, in the engine's order."""
    if contents.kind == "crew":
        return [
            Unit(task.id, task.title, task.agent, task.done, task.template, inputs_used(contents, task))
            for task in contents.tasks
        ]
    if contents.kind == "flow":
        return [
            Unit(method.name, method.name, done=method.done, count=method.count)
            for method in contents.methods
        ]
    if contents.kind == "agent":
        done = any(event.kind == "lite_agent_execution_completed" for event in contents.events)
        return [Unit(contents.id or "agent", contents.name, contents.name, done)]
    return []


def following_of(contents: Contents, methods: Sequence[FlowMethod]) -> Following | None:
    """What follows in a flow by its source's ``methods``; None if these are not known."""
    if contents.kind != "flow" or not methods:
        return None
    results: dict[str, list[str]] = {}
    for event in contents.events:
        if event.kind == "method_execution_finished" and event.flow in ("", contents.name):
            results.setdefault(event.subject, []).append(event.text[:MAX_LABEL])
    counts = {method.name: max(method.count, int(method.done)) for method in contents.methods}
    return following(methods, counts, results)


def promise_of(
    contents: Contents,
    edits: Edits,
    last: Contents | None = None,
    is_fork: bool = True,
    methods: Sequence[FlowMethod] = (),
) -> Promise:
    """What these edits lead to. ``last`` is where the run got furthest, for what the steps cost last time;
    ``methods`` are a flow's by its source.

    A fork with nothing left to run still gives the checkpoint a branch; a resume would do nothing.
    """
    promise = Promise()
    ahead = following_of(contents, methods)
    try:
        promise.steps = plan_of(contents.kind, units_of(contents), edits, ahead)
    except EditRefused as refused:
        promise.refusals.append(labels.told(refused))
        promise.steps = _plan_without_conflicts(contents, edits)
    promise.shown = [_shown(step, contents.kind, edits) for step in promise.steps]
    promise.then = [labels.turn_words(turn) for turn in ahead.turns] if ahead else []
    promise.notes = _flow_notes(promise, ahead) if contents.kind == "flow" else []
    promise.notes += _notes(contents, promise, edits, is_fork)
    if contents.kind == "flow":
        known = {event.id for event in contents.events}
        later = [event for event in last.events if event.id not in known] if last else []
        promise.calls, promise.tokens = cost_of(later, {""}, contents.kind)
    else:
        running = {step.unit for step in promise.steps if step.action in RUNNING}
        promise.calls, promise.tokens = cost_of((last or contents).events, running, contents.kind)
    return promise


def cost_of(events: Sequence[Event], units: set[str], kind: str) -> tuple[int, int]:
    """The model calls and tokens of these tasks' last attempts; of the whole record for what is no crew."""
    calls: dict[str, list[int]] = {}
    for event in events:
        unit = event.task_id if kind == "crew" else ""
        if event.kind == "task_started":
            calls[unit] = []
        elif event.kind == "llm_call_completed":
            calls.setdefault(unit, []).append(event.tokens)
    if kind != "crew":
        counted = calls.get("", []) if units else []
    else:
        counted = [tokens for unit in units for tokens in calls.get(unit, [])]
    return len(counted), sum(counted)


def _plan_without_conflicts(contents: Contents, edits: Edits) -> list[Step]:
    """The plan beside a refusal, so that a choice can be taken back; empty where there is none."""
    calm = Edits(inputs=edits.inputs, again=edits.again, keep=edits.keep - edits.again)
    try:
        return plan_of(contents.kind, units_of(contents), calm)
    except EditRefused:
        return []


def _shown(step: Step, kind: str, edits: Edits) -> ShownStep:
    if kind == "flow":
        return ShownStep(step)
    if step.action is Action.KEPT:
        return ShownStep(step, "again")
    if step.unit in edits.again and step.action is Action.AGAIN:
        return ShownStep(step, "again", True)
    if kind == "crew" and step.action is Action.AGAIN:
        return ShownStep(step, "keep")
    if step.action is Action.PINNED and step.reason is Reason.HELD:
        return ShownStep(step, "keep", True)
    return ShownStep(step)


def _flow_notes(promise: Promise, ahead: Following | None) -> list[str]:
    if ahead is None:
        return [_("The flow's source does not say which methods follow: it names them when it starts.")]
    notes = []
    if not ahead.fits:
        notes.append(
            _("The flow's source has changed since this checkpoint, so other methods may follow than these.")
        )
    if not (ahead.certain or ahead.possible or ahead.turns):
        notes.append(_("By the flow's source, nothing is left to run."))
    return notes


def _notes(contents: Contents, promise: Promise, edits: Edits, is_fork: bool) -> list[str]:
    notes: list[str] = []
    if contents.kind == "flow":
        return notes
    if (
        contents.kind == "agent"
        and promise.running_count
        and agent_prompt(contents) is None
        and not edits.inputs
    ):
        promise.refusals.append(_("The checkpoint does not say what the agent was asked: type it."))
    elif promise.steps and not promise.running_count:
        if edits.inputs or edits.outputs:
            notes.append(_("No task runs: the fork only holds what you changed."))
        elif is_fork:
            notes.append(_("No task runs and no model is called: the fork is a branch of its own from here."))
        elif not promise.refusals:
            promise.refusals.append(_("Nothing is left to run: fork it, or choose an earlier checkpoint."))
    return notes
