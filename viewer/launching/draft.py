"""A fork or resume that has not started: the form, what it leads to, and all that speaks against it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import Contents
from viewer.forms.checkpointing import EVENTS, read_checkpointing
from viewer.forms.fields import Sent, mark_changes
from viewer.forms.fork import ForkForm, FormError, Surroundings, read_fork
from viewer.forms.limits import read_limits
from viewer.forms.preflight import ShownLook
from viewer.forms.retry import Retry
from viewer.forms.schedule import read_timing
from viewer.jobs.spool import Options
from viewer.launching.options import Terms
from viewer.launching.plan_preview import Promise, promise_of
from viewer.launching.redacted_parts import hidden_in, mark_of
from viewer.lineage.branch_names import proposed_branch
from viewer.messages import labels
from viewer.models import Checkpoint, Job, Project

# The button that has all that is stale run again.
AGAIN_STALE = "again-stale"


@dataclass(slots=True)
class Draft:
    """``refusals`` are the reasons that no field can mend; ``key`` makes it start once at most.

    ``notice`` says why the button has to be pressed once more. ``hidden`` are the places of a pruned
    checkpoint whose secrets its stored copy lacks: a person accepts them as they read there, or edits them.
    """

    kind: Job.Kind
    checkpoint: Checkpoint
    project: Project | None
    contents: Contents
    form: ForkForm
    promise: Promise
    key: UUID
    refusals: list[str] = field(default_factory=list)
    notice: str = ""
    hidden: list[str] = field(default_factory=list)
    accepts_hidden: bool = False
    # None where nothing could start whatever a look found.
    look: ShownLook | None = None
    # The job that it repeats, if any.
    retry: Retry | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it starts from the copy that is kept here, as the checkpoint itself was pruned."""
        return self.checkpoint.state == Checkpoint.State.PRUNED

    @property
    def hidden_mark(self) -> str:
        """What a form sends to accept the hidden places, these and no others."""
        return mark_of(self.hidden)

    @property
    def is_fork(self) -> bool:
        return self.kind == Job.Kind.FORK

    @property
    def options(self) -> Options:
        """What was chosen for the run beside its edits."""
        chosen = Options(**self.form.models.options)
        if self.form.checkpointing.settings:
            chosen["checkpoints"] = self.form.checkpointing.settings
        if self.look:
            chosen.update(self.look.options)
        return chosen

    @property
    def terms(self) -> Terms:
        """When it may start, and how much it may use."""
        return Terms(self.form.timing.at, self.form.limits.values)

    @property
    def can_start(self) -> bool:
        return not (self.against or self.errors or (self.hidden and not self.accepts_hidden))

    @property
    def against(self) -> list[str]:
        """All that no field can mend."""
        return [*self.refusals, *(self.look.blocks if self.look else [])]

    @property
    def errors(self) -> list[FormError]:
        """All that must be mended or agreed to before it can start, in the order of the page."""
        return [*self.form.errors, *(self.look.errors if self.look else [])]

    @property
    def waits_for_look(self) -> bool:
        """Whether nothing else keeps it from starting than a look that is under way."""
        others = self.against or self.form.errors or (self.hidden and not self.accepts_hidden)
        return bool(self.look and self.look.is_under_way and not self.can_start and not others)

    @property
    def shown_plan(self) -> str:
        """Tells two plans apart: a form that was sent names the one that its person has seen."""
        told = "\n".join(f"{step.unit} {step.action}" for step in self.promise.steps)
        return sha256(told.encode()).hexdigest()[:16]

    @property
    def unrestored(self) -> str:
        """What a run without the project's code would lack; empty if nothing is known to be missing."""
        if self.form.entry_point or self.look:
            return ""
        missing = engine_of(self.contents).missing_code(self.contents)
        return labels.told(missing) if missing else ""

    @property
    def old_roles(self) -> str:
        """Who would keep an input's former value; empty if the project's code is used."""
        if self.form.entry_point or not self.promise.running_count:
            return ""
        former = engine_of(self.contents).former_values(self.contents, self.form.edits)
        return labels.told(former) if former else ""

    @property
    def shares_its_branch(self) -> bool:
        """Whether resuming gives this branch a second continuation."""
        return not self.is_fork and self.checkpoint.children.filter(branch=self.checkpoint.branch).exists()


def draft_of(
    kind: Job.Kind,
    checkpoint: Checkpoint,
    contents: Contents,
    sent: Sent,
    chosen: Mapping[str, list[str]],
    entry_point: str,
    key: UUID,
    last: Contents | None = None,
) -> Draft:
    """The draft as it is first shown (``sent`` is None) or was sent. ``entry_point`` is the proposed one."""
    project = checkpoint.location.project
    is_fork = kind == Job.Kind.FORK
    form = _form_of(kind, checkpoint, contents, sent, chosen, entry_point)
    promise = promise_of(contents, form.edits, last, is_fork, form.source)
    if sent is not None and is_fork and AGAIN_STALE in sent:
        form.again |= {step.unit for step in promise.stale}
        form.keep -= form.again
        promise = promise_of(contents, form.edits, last, is_fork, form.source)
    refusals = [*against(checkpoint, project, form.entry_point), *promise.refusals]
    draft = Draft(kind, checkpoint, project, contents, form, promise, key, refusals)
    if draft.is_stored:
        draft.hidden = hidden_in(contents, form.edits, promise.steps)
        draft.accepts_hidden = sent is not None and sent.get("accept-hidden") == draft.hidden_mark
    return draft


def _form_of(
    kind: Job.Kind,
    checkpoint: Checkpoint,
    contents: Contents,
    sent: Sent,
    chosen: Mapping[str, list[str]],
    entry_point: str,
) -> ForkForm:
    """All of its fields, with what was sent in them."""
    project = checkpoint.location.project
    engine = engine_of(contents)
    is_fork = kind == Job.Kind.FORK
    around = Surroundings(
        branches=branches_of(checkpoint) if is_fork else None,
        proposed_branch=proposed_branch(checkpoint.checkpoint_id) if is_fork else checkpoint.branch,
        entry_points=project.entry_points if project else [],
        proposed_entry_point=entry_point,
    )
    form = read_fork(contents, around, sent if is_fork else _of_a_resume(sent), chosen if is_fork else {})
    form.checkpointing = read_checkpointing(
        engine,
        engine.checkpoint_events(Path(project.interpreter) if project else None),
        contents.kind,
        contents.checkpoint_events,
        sent,
        chosen.get(EVENTS, []),
    )
    form.timing, form.limits = read_timing(sent), read_limits(sent)
    if project:
        form.source = engine.read_source(Path(project.folder), form.entry_point, contents.kind)
    for output in form.outputs:
        mark_changes(output)
    return form


def branches_of(checkpoint: Checkpoint) -> set[str]:
    """The names that a new branch may not have: those written, and those about to be."""
    return checkpoint.location.taken_branches


def _of_a_resume(sent: Sent) -> Sent:
    """A resume edits nothing: all that counts of its form is where it starts."""
    return None if sent is None else {"entry_point": sent.get("entry_point", "")}


def against(checkpoint: Checkpoint, project: Project | None, entry_point: str) -> list[str]:
    """Why nothing can start from this checkpoint as it stands; empty where it can."""
    reasons = {
        Checkpoint.State.WRITING: _("This checkpoint is still being written. Look again in a moment."),
        Checkpoint.State.BROKEN: _(
            "This checkpoint cannot be read at its location any more, so no run can start from it. "
            "Choose another one."
        ),
    }
    found = [reasons[checkpoint.state]] if checkpoint.state in reasons else []  # type: ignore[index]
    if checkpoint.state == Checkpoint.State.PRUNED and not entry_point:
        found.append(
            _(
                "This checkpoint was pruned at its location, and the copy that is kept here lacks what was "
                "hidden in it. A run needs the project's own code, which has its keys and parts: name it "
                "under “Starts with”, or add it to the project."
            )
        )
    if project is None or not project.is_confirmed:
        found.append(_("The project of this location is not confirmed: nothing may run in it yet."))
    return found
