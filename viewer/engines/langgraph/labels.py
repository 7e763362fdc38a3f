"""What a person runs with LangGraph, and the labels of its checkpoints and preflight checks."""

from viewer.engines.entry_points import PreflightLabels, RootKind
from viewer.engines.langgraph.tables import MAX_ROWS
from viewer.engines.protocol import KnownStore
from viewer.messages.catalog import gettext_noop as _

# What a person runs with LangGraph: a graph.


GRAPH = RootKind(
    name="graph",
    label=_("graph"),
    unit_label=_("node"),
    units_label=_("nodes"),
    has_state=True,
    can_add_inputs=False,
    needs_entry_point=_("A graph needs its own code to continue: choose the graph, or add its project."),
    no_steps=_("The graph decides which nodes run next."),
    adds_to_state=True,
    forks_on_copy=True,
    max_listed=MAX_ROWS,
    fork_targets=(
        ("scratch", _("Keep as a draft (in Forkline only)")),
        ("new-thread", _("A new thread at the location")),
        ("thread", _("This thread: moves its head")),
    ),
    published_hint=_(
        "Other threads do not change. The new thread begins with a copy of the forked checkpoint;"
        " earlier checkpoints stay in their own thread."
    ),
    run_label=_("Thread"),
    copies_origin=True,
    published_name=_("Name of the new thread"),
    published_name_hint=_("Its thread_id, by which your program continues it."),
    moves_head=_(
        "This moves the head of the thread: its next turn continues from the fork. The checkpoints that it "
        "has stay as they are."
    ),
    has_run_settings=True,
    needs_source=True,
    target_on_other_host="new-thread",
    sends_store=True,
    writes_folders=False,
    resumes_last_only=True,
    always_has_effects=True,
    new_run=_("The graph runs from its start, on a new thread."),
)
KINDS = {kind.name: kind for kind in (GRAPH,)}
KNOWN_STORES = (
    KnownStore(_("Deep Agents sessions"), "~/.deepagents/.state/sessions.db"),
    KnownStore(_("Deep Agents sessions"), "~/.deepagents/sessions.db"),
    KnownStore(_("LangGraph development server"), ".langgraph_api/checkpoints.sqlite"),
    KnownStore(
        _("LangGraph development server"),
        ".langgraph_api/.langgraph_checkpoint.*.pckl",
        advice="engines/langgraph/_pickled.html",
    ),
)


# The triggers of LangGraph's checkpoints: the ``source``, and for the head of a branch a suffix.


FAILED, WAITING, ENDED, UNFINISHED = "_failed", "_waiting", "_ended", "_unfinished"
TRIGGER_LABELS = {
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


# Labels for the preflight check of a graph. A graph has no components that may be lost.


PREFLIGHT_LABELS = PreflightLabels(
    of_unit=_("node %(position)d: %(text)s"),
    notes={
        "next": _("Next in the graph: %(detail)s"),
        "memory": _(
            "With this version of LangGraph, a fork runs subgraphs without what they remember: %(detail)s"
        ),
    },
)
