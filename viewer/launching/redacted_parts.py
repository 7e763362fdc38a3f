"""What the stored copy of a checkpoint lacks because it was hidden, where a run would send it."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from django.utils.translation import gettext as _

from viewer.engines.crewai.agent_prompt import agent_prompt
from viewer.engines.crewai.contents import Contents
from viewer.engines.plan import Action, Edits, Step
from viewer.launching.values import has_redacted_part

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
        prompt = agent_prompt(contents)
        if prompt is not None and not edits.inputs and has_redacted_part(prompt):
            yield _("what the agent is asked")
        return
    for name, value in contents.inputs.items() if contents.kind == "crew" else ():
        if name not in edits.inputs and has_redacted_part(value):
            yield _("the input %(name)s") % {"name": name}
    for name, value in (contents.flow_state or {}).items():
        if name not in (edits.state or {}) and has_redacted_part(value):
            yield _("%(name)s in the flow's state") % {"name": name}


def _outputs(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[str]:
    kept = {step.unit for step in steps if step.action in READ and step.unit not in edits.outputs}
    for task in contents.tasks:
        if task.id in kept and has_redacted_part([task.output, task.output_json]):
            yield _("the output of task %(position)d") % {"position": task.position}
    for method in contents.methods:
        if method.done and has_redacted_part(method.output):
            yield _("what the method %(name)s has returned") % {"name": method.name}
