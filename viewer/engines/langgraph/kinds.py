"""What a person runs with LangGraph: a graph."""

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
    no_steps=_("The checkpoint does not say which nodes run next."),
    is_runnable=False,
)
KINDS = {kind.name: kind for kind in (GRAPH,)}
