"""A fork or resume that has not started: the form, what it leads to, and all that speaks against it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from django.utils.translation import gettext as _

from viewer.contents import Contents
from viewer.forms.fields import Sent, mark_changes
from viewer.forms.fork import ForkForm, Surroundings, read_fork
from viewer.forms.promise import Promise, promise_of
from viewer.jobs.branch import proposed_branch
from viewer.models import Checkpoint, Job, Project


@dataclass(slots=True)
class Draft:
    """``refusals`` are the reasons that no field can mend; ``key`` makes it start once at most.

    ``notice`` says why the button has to be pressed once more.
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

    @property
    def is_fork(self) -> bool:
        return self.kind == Job.Kind.FORK

    @property
    def can_start(self) -> bool:
        return not (self.refusals or self.form.errors)

    @property
    def shown_plan(self) -> str:
        """Tells two plans apart: a form that was sent names the one that its person has seen."""
        told = "\n".join(f"{step.unit} {step.action}" for step in self.promise.steps)
        return sha256(told.encode()).hexdigest()[:16]

    @property
    def unrestored(self) -> str:
        """What a run without the project's code would lack; empty where nothing is known to be."""
        if self.contents.kind != "crew" or self.form.entry_point:
            return ""
        return _(
            "Guardrails, callbacks and links between tasks are not in a checkpoint. Without the code that "
            "made this crew they cannot be restored: name it under “Starts with”, or add it to the project."
        )

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
    around = Surroundings(
        branches=branches_of(checkpoint) if is_fork else None,
        proposed_branch=proposed_branch(checkpoint.checkpoint_id) if is_fork else checkpoint.branch,
        entry_points=project.entry_points if project else [],
        proposed_entry_point=entry_point,
    )
    form = read_fork(contents, around, sent if is_fork else _of_a_resume(sent), chosen if is_fork else {})
    for output in form.outputs:
        mark_changes(output)
    promise = promise_of(contents, form.edits, last, is_fork)
    refusals = [*_against(checkpoint, project), *promise.refusals]
    return Draft(kind, checkpoint, project, contents, form, promise, key, refusals)


def branches_of(checkpoint: Checkpoint) -> set[str]:
    """The names that a new branch may not have: those written, and those about to be."""
    location = checkpoint.location
    written = location.checkpoints.values_list("branch", flat=True).distinct()
    return {*written, *location.jobs.unfinished().values_list("branch", flat=True)}


def _of_a_resume(sent: Sent) -> Sent:
    """A resume edits nothing: all that counts of its form is where it starts."""
    return None if sent is None else {"entry_point": sent.get("entry_point", "")}


def _against(checkpoint: Checkpoint, project: Project | None) -> list[str]:
    """Why nothing can start from this checkpoint as it stands; empty where it can."""
    reasons = {
        Checkpoint.State.PRUNED: _(
            "This checkpoint was pruned at its location. The copy that is kept here lacks what was hidden "
            "in it, so no run can start from it. Choose a checkpoint that still stands there."
        ),
        Checkpoint.State.WRITING: _("This checkpoint is still being written. Look again in a moment."),
        Checkpoint.State.BROKEN: _(
            "This checkpoint cannot be read at its location any more, so no run can start from it. "
            "Choose another one."
        ),
    }
    found = [reasons[checkpoint.state]] if checkpoint.state in reasons else []  # type: ignore[index]
    if project is None or not project.is_confirmed:
        found.append(_("The project of this location is not confirmed: nothing may run in it yet."))
    return found
