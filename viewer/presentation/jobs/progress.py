"""The progress of a job, computed from its events. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewer.engines import unit_subjects
from viewer.engines.titles import short_title
from viewer.jobs.event_values import positive_integer

# Actions with which a step does not run.
NOT_RUN = frozenset({"kept", "edited", "pinned"})
# Maximum length of the streamed text in the progress bar, in characters.
MAX_TEXT = 400


@dataclass(slots=True)
class ShownStep:
    """One step of the plan.

    ``state`` is kept, waiting, running, done or failed; skipped if the job succeeded without it; if the job
    ended otherwise, stopped or unrun.
    """

    unit: str
    position: int
    title: str
    agent: str
    action: str
    reason: str
    state: str

    @property
    def is_done(self) -> bool:
        return self.state in {"kept", "done"}

    @property
    def shown_reason(self) -> str:
        """The reason for the action; empty for unfinished steps that have started in the meantime."""
        return "" if self.reason == "unfinished" and self.state != "waiting" else self.reason


@dataclass(slots=True)
class Progress:
    """The progress of a job up to the event ``seq``."""

    steps: list[ShownStep] = field(default_factory=list)
    running: str = ""
    text: str = ""
    speaker: str = ""
    tokens: int = 0
    seq: int = 0
    # The prompts of unanswered questions, by number.
    asks: dict[int, str] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def total(self) -> int:
        return sum(step.state != "skipped" for step in self.steps)

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything that the progress bar shows, except the streamed text and the number of the event."""
        shown = (self.running, self.speaker, self.tokens, self.done, self.total)
        return (*shown, bool(self.text), tuple(self.asks.items()))


def progress_of(plan: Sequence[Mapping[str, Any]]) -> Progress:
    """Return the progress of a job before its start, from its plan."""
    return Progress(steps=steps_from(plan))


def steps_from(plan: Sequence[Mapping[str, Any]]) -> list[ShownStep]:
    """Return the steps of a stored plan before its start."""
    return [
        ShownStep(
            unit=str(step.get("unit", "")),
            position=int(step.get("position") or position),
            title=short_title(str(step.get("title", ""))),
            agent=str(step.get("agent") or ""),
            action=str(step.get("action", "")),
            reason=str(step.get("reason", "")),
            state="kept" if step.get("action") in NOT_RUN else "waiting",
        )
        for position, step in enumerate(plan, 1)
    ]


def advance(progress: Progress, seq: int, kind: str, data: Mapping[str, Any]) -> None:
    """Apply one event. Events must be in order; one that was applied before is ignored."""
    if seq <= progress.seq:
        return
    progress.seq = seq
    subject, _, happened = kind.partition("_")
    if kind == "steps":
        name_steps(progress, data.get("steps") or [])
    elif subject in unit_subjects():
        move_step(progress, subject, happened, data)
    elif kind in {"model_completed", "cache_warmed"}:
        progress.tokens = positive_integer(data.get("total_tokens")) or progress.tokens
    elif kind == "text":
        add_text(progress, str(data.get("text") or ""), str(data.get("agent") or ""))
    elif kind == "question":
        progress.asks[positive_integer(data.get("number"))] = str(data.get("prompt") or "")
    elif kind in {"answered", "withdrawn"}:
        progress.asks.pop(positive_integer(data.get("number")), None)
    elif kind == "ended":
        progress.running = ""


def halt(progress: Progress, *, has_failed: bool, has_succeeded: bool = False) -> None:
    """Mark the steps of an ended job.

    Running steps are stopped, or failed if the job has failed and no step has. Steps that did not run in a
    job that succeeded were skipped, by a condition or a router.
    """
    progress.running = ""
    has_failed_step = any(step.state == "failed" for step in progress.steps)
    ends = {
        "running": "failed" if has_failed and not has_failed_step else "stopped",
        "waiting": "skipped" if has_succeeded else "unrun",
    }
    for step in progress.steps:
        step.state = ends.get(step.state, step.state)


def name_steps(progress: Progress, found: Iterable[Mapping[str, Any]]) -> None:
    """Add the steps that only the runner can know."""
    known = {step.unit for step in progress.steps}
    for step in steps_from([entry for entry in found if isinstance(entry, Mapping)]):
        if step.unit not in known:
            step.position = len(progress.steps) + 1
            progress.steps.append(step)


def move_step(progress: Progress, subject: str, happened: str, data: Mapping[str, Any]) -> None:
    """Update the step of a unit that started, completed or failed."""
    unit = str(data.get(subject) or "")
    step = next((step for step in progress.steps if step.unit == unit), None)
    if step is None:
        title = short_title(str(data.get("description") or "")) or unit
        agent = str(data.get("agent") or "")
        step = ShownStep(unit, len(progress.steps) + 1, title, agent, "runs", "", "waiting")
        progress.steps.append(step)
    step.state = {"started": "running", "completed": "done", "failed": "failed"}.get(happened, step.state)
    running = [step for step in progress.steps if step.state == "running"]
    progress.running = running[-1].title if running else ""
    if happened == "started":
        progress.text, progress.speaker = "", step.agent or str(data.get("agent") or "")


def add_text(progress: Progress, text: str, agent: str) -> None:
    """Append streamed text, on one line, up to the maximum length."""
    before = progress.text if agent == progress.speaker else ""
    progress.text = f"{before}{text}".replace("\n", " ")[-MAX_TEXT:]
    progress.speaker = agent
