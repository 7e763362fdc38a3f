"""What a person runs with LangGraph: a graph."""

from viewer.engines.langgraph.tables.protocol import MAX_ROWS
from viewer.engines.root_kinds import RootKind
from viewer.messages.marking import gettext_noop as _

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
    moves_head=_(
        "This moves the head of the thread: its next turn continues from the fork. The checkpoints that it "
        "has stay as they are."
    ),
    has_run_settings=True,
    needs_source=True,
    writes_folders=False,
    resumes_last_only=True,
    always_has_effects=True,
    new_run=_("The graph runs from its start, on a new thread."),
)
KINDS = {kind.name: kind for kind in (GRAPH,)}
