"""What made the engine write a checkpoint: its shape in the lineage, and its label."""

from functools import lru_cache

from django.utils.translation import gettext

from viewer.engines import all_engines
from viewer.lineage.drawing import Shape
from viewer.models import Checkpoint


def trigger_words(trigger: str) -> str:
    """The label of a trigger; an unknown one as the engine writes it, without underscores."""
    if not trigger:
        return gettext("written on request")
    label = next((one.trigger_labels[trigger] for one in all_engines() if trigger in one.trigger_labels), "")
    return gettext(label) if label else trigger.replace("_", " ")


def written_words(trigger: str, branch: str, parent_branch: str | None) -> str:
    """Why a checkpoint was written. A fork writes its first one by itself, on a branch that is new."""
    if not trigger and parent_branch not in (None, branch):
        return gettext("forked")
    return trigger_words(trigger)


@lru_cache(maxsize=1)
def failure_suffixes() -> tuple[str, ...]:
    """How the triggers of every engine that are failures end."""
    return tuple(dict.fromkeys(suffix for one in all_engines() for suffix in one.failure_suffixes))


def is_failure(trigger: str) -> bool:
    """Whether a checkpoint was written because something failed."""
    return trigger.endswith(failure_suffixes())


def shape_of(trigger: str) -> Shape:
    """Filled is finished work, hollow a start, a tick the end of a run, a cross a failure."""
    if is_failure(trigger):
        return "failure"
    if any(one.is_end(trigger) for one in all_engines()):
        return "end"
    return "start" if any(one.is_start(trigger) for one in all_engines()) else "done"


def title_of(checkpoint: Checkpoint) -> str:
    """A checkpoint in half a sentence, such as ``task 2 of 4 completed``."""
    done, total = checkpoint.tasks_done, checkpoint.tasks_total
    if not checkpoint.trigger and checkpoint.parent:
        return written_words("", checkpoint.branch, checkpoint.parent.branch)
    labels = (one.numbered_label(checkpoint.entity, checkpoint.trigger) for one in all_engines())
    label = next(filter(None, labels), "") if total else ""
    numbers = {"done": done, "next": min(done + 1, total), "total": total}
    return gettext(label) % numbers if label else trigger_words(checkpoint.trigger)
