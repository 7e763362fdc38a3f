"""The triggers of LangGraph's checkpoints: the ``source``, and for the head of a branch a suffix."""

from viewer.messages.marking import gettext_noop as _

FAILED, WAITING, ENDED, UNFINISHED = "_failed", "_waiting", "_ended", "_unfinished"
LABELS = {
    "input": _("input"),
    "loop": _("start of the graph"),
    "update": _("state updated"),
    "fork": _("replayed"),
    **{
        f"{source}{suffix}": label
        for source in ("input", "loop", "update", "fork")
        for suffix, label in (
            (FAILED, _("failed")),
            (WAITING, _("waiting for an answer")),
            (ENDED, _("ended")),
            (UNFINISHED, _("not finished")),
        )
    },
}
# The subject of the runner's events of nodes: ``<subject>_started``, ``_completed`` and ``_failed``.
UNIT_SUBJECTS = ("node",)
ASKER_LABELS = {"node": _("Node %(value)s")}
EVENT_LABELS = {
    "node_started": _("%(node)s started"),
    "node_completed": _("%(node)s completed"),
    "node_failed": _("%(node)s failed"),
    "node_retried": _("%(node)s failed and is tried again"),
    "node_interrupted": _("%(node)s waits for an answer"),
    "published": _("Published as thread %(thread)s"),
    "custom": _("A node reported progress"),
}
EVENT_DETAILS = {"node_completed": "output", "node_retried": "error", "custom": "value"}


def is_start(trigger: str) -> bool:
    """Whether the checkpoint was written when an input arrived."""
    return trigger in ("input", f"input{UNFINISHED}")


def is_end(trigger: str) -> bool:
    """Whether nothing is left to run after the checkpoint."""
    return trigger in {f"{source}{ENDED}" for source in ("loop", "update", "fork")}
