"""A graph whose channels are stored as changes. changes.py STORE prints what LangGraph makes of them.

There are messages with an edit and a removal, a list that is replaced, and a channel whose value only the
graph's own code makes. Two nodes write side by side, and the order of their writes matters.
"""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Overwrite
from record import opened


def appended(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*value, *(one for write in writes for one in write)]


def merged(value: dict[str, int], writes: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: item for part in (value, *writes) for name, item in part.items()}


class State(TypedDict, total=False):
    messages: Annotated[list, DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]
    notes: Annotated[list, DeltaChannel(appended)]
    counts: Annotated[dict, DeltaChannel(merged)]


STEPS = {
    "ask": {"messages": [HumanMessage("cats?", id="1")], "notes": ["a"], "counts": {"a": 1}},
    "answer": {"messages": [AIMessage("Cats.", id="2"), AIMessage("More.", id="3")], "notes": ["b"]},
    "edit": {"messages": [HumanMessage("dogs?", id="1"), RemoveMessage(id="3")], "notes": Overwrite(["c"])},
    "last": {"messages": AIMessage("Dogs.", id="4"), "notes": ["d"], "counts": {"a": 2, "d": 1}},
}
graph = StateGraph(State)
before = START
for name, update in STEPS.items():
    graph.add_node(name, lambda state, update=update: update)
    graph.add_edge(before, name)
    before = name
for name in ("zeta", "alpha"):
    graph.add_node(name, lambda state, name=name: {"notes": [name]})
    graph.add_edge("last", name)


def main(store: str) -> None:
    """Run the graph on a thread, and print the values of its checkpoints."""
    config: Any = {"configurable": {"thread_id": "changes"}}
    with opened(store) as saver:
        made = graph.compile(checkpointer=saver)
        made.invoke({"notes": []}, config)
        shown = {}
        for state in made.get_state_history(config):
            values = dict(state.values)
            values["messages"] = [[one.id, one.content] for one in values.get("messages") or []]
            shown[state.config["configurable"]["checkpoint_id"]] = values
    print(json.dumps(shown))


if __name__ == "__main__":
    main(sys.argv[1])
