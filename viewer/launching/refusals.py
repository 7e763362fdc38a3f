"""The reasons why a launch cannot start, shared by the browser and the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines.editable import RunSettings
from viewer.engines.entry_points import RootKind
from viewer.host_requests import CheckCommit, CheckProject, HostAway, JobRefused, ListCheckpointEvents, ask
from viewer.launching.options import EVENTS, EVERY_EVENT
from viewer.launching.requests import CheckpointRequest, LaunchOptions, LaunchRequest
from viewer.launching.values import is_utf8
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Host, Project
from viewer.records.hosts import is_away
from viewer.records.limits import quota_refusal
from viewer.records.lineage.branch_names import BranchRefused, checked_branch


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
    message: str
    field: str = ""
    label: str = ""


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


def away_host(project: Project | None) -> Host | None:
    """Return the project's host if it does not answer."""
    return project.host if project and is_away(project.host_id) else None


def project_refusals(project: Project | None, options: LaunchOptions) -> list[Refusal]:
    """Why nothing can run in this project.

    If its host is away and the start is to wait for it, the host checks the project when it returns.
    """
    if project is None or not project.is_confirmed:
        message = _("The project of this location is not confirmed: nothing may run in it yet.")
        return [Refusal(Code.PROJECT, message)]
    if host := away_host(project):
        message = _("%(host)s does not answer: queue the start, or try again when it is back.")
        refusal = Refusal(Code.HOST, message % {"host": host.name}, "waits-for-host", _("Host"))
        return [] if options.waits_for_host else [refusal]
    try:
        ask(CheckProject(project.pk))
    except JobRefused as refused:
        return [Refusal(Code.PROJECT, translate(refused))]
    return []


def quota_refusals(request: LaunchRequest, runs: int = 1) -> list[Refusal]:
    """Why quotas of the person's teams do not allow this number of runs at present."""
    person = request.requested_by
    reason = quota_refusal(person.pk, runs, request.options.start_at) if person else None
    return [Refusal(Code.QUOTA, translate(reason))] if reason else []


def event_refusals(request: LaunchRequest) -> list[Refusal]:
    """Why the project's engine writes no checkpoints at the chosen events."""
    names, project = set(request.checkpointing.get("events", ())) - {EVERY_EVENT}, request.project
    if not names or project is None or away_host(project):
        # A host that is away refuses unknown events at the start.
        return []
    engine = request.engine
    groups = ask(ListCheckpointEvents(engine.name, project.interpreter), host=project.host_id)
    unknown = sorted(names.difference(*(group.events for group in groups)))
    if not unknown:
        return []
    message = _("The project's %(engine)s does not know these events: %(names)s.")
    values = {"engine": engine.title, "names": ", ".join(unknown)}
    return [Refusal(Code.EVENTS, message % values, "checkpoint-events", str(EVENTS.label))]


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
        return [Refusal(Code.BRANCH, translate(refused), "branch", _("Branch"))]
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


def commit_refusals(request: CheckpointRequest) -> list[Refusal]:
    """Why the recorded commit of this request cannot run."""
    if not request.uses_recorded_code or request.project is None:
        return []
    commit = request.commit
    if not commit:
        message = _(
            "No commit was recorded for this checkpoint: only a checkpoint that a job of this project wrote, "
            "in a git repository, has one."
        )
        return [Refusal(Code.COMMIT, message, "code", _("Code"))]
    try:
        ask(CheckCommit(request.project.pk, commit))
    except HostAway:
        # The host checks it when it is back.
        return []
    except JobRefused as refused:
        return [Refusal(Code.COMMIT, translate(refused), "code", _("Code"))]
    return []
