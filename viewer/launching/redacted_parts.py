"""What the stored copy of a checkpoint lacks because it was hidden, where a run would send it."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from django.utils.translation import gettext as _

from viewer.engines.crewai.contents import Contents
from viewer.engines.plan import Action, Edits, Step
from viewer.forms.fields import MISSING
from viewer.forms.fork import asked_of
from viewer.forms.values import holds_secret

READ = (Action.KEPT, Action.PINNED)


def hidden_in(contents: Contents, edits: Edits, steps: Sequence[Step]) -> list[str]:
    """Each place, in words, whose hidden part a run would be given as it reads here; none that was edited.

    A location's own checkpoint still holds these values; the copy that is kept of a pruned one does not.
    """
    return [*_values(contents, edits), *_outputs(contents, edits, steps)]


def mark_of(hidden: Sequence[str]) -> str:
    """Tells one list of hidden places from another: an agreement holds for those that were named."""
    return sha256("\n".join(hidden).encode()).hexdigest()[:16]


def _values(contents: Contents, edits: Edits) -> Iterator[str]:
    if contents.kind == "agent":
        asked = asked_of(contents)
        if asked is not MISSING and not edits.inputs and holds_secret(asked):
            yield _("what the agent is asked")
        return
    for name, value in contents.inputs.items() if contents.kind == "crew" else ():
        if name not in edits.inputs and holds_secret(value):
            yield _("the input %(name)s") % {"name": name}
    for name, value in (contents.flow_state or {}).items():
        if name not in (edits.state or {}) and holds_secret(value):
            yield _("%(name)s in the flow's state") % {"name": name}


def _outputs(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[str]:
    kept = {step.unit for step in steps if step.action in READ and step.unit not in edits.outputs}
    for task in contents.tasks:
        if task.id in kept and holds_secret([task.output, task.output_json]):
            yield _("the output of task %(position)d") % {"position": task.position}
    for method in contents.methods:
        if method.done and holds_secret(method.output):
            yield _("what the method %(name)s has returned") % {"name": method.name}
