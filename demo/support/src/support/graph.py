"""The graph: the agent and its tool, then a fan-out, then a person's approval."""

import re

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from support.offline_model import OfflineChatModel
from support.research import research_graph
from support.state import Support

ORDERS = {"1001": 80.0, "1002": 20.0}
# Larger refunds are approved by a person.
SMALL_REFUND = 50


@tool
def find_order(text: str) -> str:
    """Find the order that a message is about."""
    number = re.search(r"\d{4}", text)
    if number is None or number[0] not in ORDERS:
        return "No order was found."
    return f"Order {number[0]} cost {ORDERS[number[0]]:.2f} euros."


def agent(state: Support) -> Support:
    model = OfflineChatModel().bind_tools([find_order])
    return {"messages": [model.invoke(state["messages"])]}


def after_agent(state: Support) -> str:
    return "tools" if state["messages"][-1].tool_calls else "classify"


def classify(state: Support) -> Support:
    asked = str(state["messages"][0].content).casefold()
    number = re.search(r"\d{4}", asked)
    topic = "refund" if "refund" in asked or "money back" in asked else "delivery"
    return {"topic": topic, "order": number[0] if number else ""}


def read_order(state: Support) -> Support:
    price = ORDERS.get(state.get("order", ""), 0.0)
    return {"refund": price, "facts": [f"Order: {price:.2f} euros."]}


def read_history(state: Support) -> Support:
    return {"facts": ["History: no refund before."]}


def approve(state: Support) -> Support:
    """Ask a person, unless the refund is small."""
    if state.get("topic") != "refund" or state["refund"] <= SMALL_REFUND:
        return {"decision": "approve"}
    answer = interrupt(
        {
            "question": f"Refund {state['refund']:.2f} euros for order {state['order']}?",
            "options": ["approve", "reject"],
        }
    )
    return {"decision": str(answer)}


def after_approval(state: Support) -> str:
    return "refund" if state["decision"] == "approve" else "decline"


def refund(state: Support) -> Support:
    return {"messages": [AIMessage(f"We refund {state.get('refund', 0):.2f} euros.")]}


def decline(state: Support) -> Support:
    return {"messages": [AIMessage("We cannot refund this order.")]}


def support_graph() -> StateGraph:
    """The uncompiled graph."""
    graph = StateGraph(Support)
    for node in (agent, classify, read_order, read_history, approve, refund, decline):
        graph.add_node(node.__name__, node)
    graph.add_node("tools", ToolNode([find_order]))
    graph.add_node("research", research_graph().compile())
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", after_agent, ["tools", "classify"])
    graph.add_edge("tools", "agent")
    lookups = ["read_order", "read_history", "research"]
    for lookup in lookups:
        graph.add_edge("classify", lookup)
    graph.add_edge(lookups, "approve")
    graph.add_conditional_edges("approve", after_approval, ["refund", "decline"])
    graph.add_edge("refund", END)
    graph.add_edge("decline", END)
    return graph


graph = support_graph().compile()
