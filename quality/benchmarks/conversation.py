"""Writes a conversation with LangGraph, and reads its history as a user of LangGraph does.

Runs in the interpreter of a LangGraph project:

    python conversation.py write DATABASE TURNS
    python conversation.py history DATABASE THREAD
"""

import sqlite3
import sys
import time
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState, StateGraph

THREAD = "conversation"
# Older messages are removed, as in most graphs: a model reads all of them at each turn.
MAX_MESSAGES = 40
FORKS = 10
QUESTION = "My order has not arrived yet, and the tracking page has not changed for days. What can I do? " * 2
ANSWER = "I have looked at your order. The parcel left our warehouse and waits at the carrier. " * 6
ROUNDS = 3


def main(action: str, path: str, argument: str) -> None:
    """Do what the arguments say."""
    connection = sqlite3.connect(path, check_same_thread=False)
    graph = compiled(connection)
    if action == "write":
        write(graph, connection, int(argument))
    else:
        read(graph, argument)


def compiled(connection: sqlite3.Connection) -> Any:
    """A graph with one node that answers, and forgets old messages."""

    def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
        messages = state["messages"]
        old = [RemoveMessage(id=str(one.id)) for one in messages[: -MAX_MESSAGES + 1]]
        usage: Any = {"input_tokens": 4000, "output_tokens": 120, "total_tokens": 4120}
        text = f"{len(messages)}. {ANSWER}"
        return {"messages": [*old, AIMessage(text, usage_metadata=usage)]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.set_entry_point("answer")
    return builder.compile(checkpointer=SqliteSaver(connection))


def write(graph: Any, connection: sqlite3.Connection, turns: int) -> None:
    """Write a conversation with some forks."""
    connection.execute("PRAGMA synchronous = OFF")
    config = {"configurable": {"thread_id": THREAD}}
    for turn in range(turns):
        graph.invoke({"messages": [HumanMessage(f"{turn}. {QUESTION}")]}, config)
        if (turn + 1) % max(turns // FORKS, 1) == 0:
            earlier = list(graph.get_state_history(config, limit=10))[-1]
            changed = graph.update_state(earlier.config, {"messages": [HumanMessage(f"Again: {QUESTION}")]})
            graph.invoke(None, changed)


def read(graph: Any, thread: str) -> None:
    """Print the number of checkpoints of a thread, and the processor and wall seconds of reading them."""
    for _round in range(ROUNDS):
        used, began = time.process_time(), time.perf_counter()
        count = len(list(graph.get_state_history({"configurable": {"thread_id": thread}})))
        print(count, time.process_time() - used, time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
