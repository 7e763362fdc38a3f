"""The subgraph that reads the shop's policies."""

from langgraph.graph import END, START, StateGraph

from support.state import Research

POLICIES = {
    "refund": ["Refunds are paid within 30 days.", "Above 50 euros a person decides."],
    "delivery": ["Parcels arrive within 5 days."],
}


def search(state: Research) -> Research:
    return {"passages": POLICIES.get(state.get("topic", ""), [])}


def summarize(state: Research) -> Research:
    return {"facts": [f"Policy: {' '.join(state.get('passages', []))}"]}


def research_graph() -> StateGraph:
    """The uncompiled subgraph."""
    graph = StateGraph(Research)
    graph.add_node("search", search)
    graph.add_node("summarize", summarize)
    graph.add_edge(START, "search")
    graph.add_edge("search", "summarize")
    graph.add_edge("summarize", END)
    return graph
