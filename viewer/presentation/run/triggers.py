"""The trigger of a checkpoint: its label, and its shape in the lineage."""

from functools import lru_cache

from django.utils.translation import gettext

from viewer.engines import all_engines
from viewer.formats.amounts import count_text
from viewer.lineage.drawing import Shape
from viewer.models import Checkpoint


def trigger_label(trigger: str) -> str:
    """Return the label of a trigger; of an unknown one, its name without underscores."""
    if not trigger:
        return gettext("written on request")
    label = next((one.trigger_labels[trigger] for one in all_engines() if trigger in one.trigger_labels), "")
    return gettext(label) if label else trigger.replace("_", " ")


def written_label(trigger: str, branch: str, parent_branch: str | None) -> str:
    """Return why a checkpoint was written. A fork writes the first one of its branch."""
    if not trigger and parent_branch not in (None, branch):
        return gettext("forked")
    return trigger_label(trigger)


@lru_cache(maxsize=1)
def failure_suffixes() -> tuple[str, ...]:
    """The endings of the triggers that are failures, of every engine."""
    return tuple(dict.fromkeys(suffix for one in all_engines() for suffix in one.failure_suffixes))


def is_failure(trigger: str) -> bool:
    """Return whether a failure triggered the checkpoint."""
    return trigger.endswith(failure_suffixes())


def shape_of(trigger: str) -> Shape:
    """Return ``failure``, ``end``, ``start`` or ``done``."""
    if is_failure(trigger):
        return "failure"
    if any(one.is_end(trigger) for one in all_engines()):
        return "end"
    return "start" if any(one.is_start(trigger) for one in all_engines()) else "done"


def source_of(trigger: str) -> str:
    """Return the trigger without its outcome: ``loop`` for ``loop_failed``."""
    return trigger.partition("_")[0]


def step_title(checkpoint: Checkpoint) -> str:
    """Return the number of a checkpoint's step and its units, such as ``step 3, collect, review waiting``."""
    step = gettext("step %(step)s") % {"step": count_text(checkpoint.step or 0)}
    units = [
        name if status == "done" else f"{name} {gettext(status)}".strip() for name, status in checkpoint.units
    ]
    return ", ".join([step, *(units or [trigger_label(checkpoint.trigger)])])


def title_of(checkpoint: Checkpoint) -> str:
    """Return a checkpoint's title: the label of its trigger, with the number of the unit."""
    if checkpoint.step is not None:
        return step_title(checkpoint)
    done, total = checkpoint.units_done, checkpoint.units_total
    if not checkpoint.trigger and checkpoint.parent:
        return written_label("", checkpoint.branch, checkpoint.parent.branch)
    labels = (one.numbered_label(checkpoint.entity, checkpoint.trigger) for one in all_engines())
    label = next(filter(None, labels), "") if total else ""
    numbers = {"done": done, "next": min(done + 1, total), "total": total}
    return gettext(label) % numbers if label else trigger_label(checkpoint.trigger)
