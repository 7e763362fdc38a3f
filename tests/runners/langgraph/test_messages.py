"""Forks with edited messages, next to what LangGraph's own update_state does."""

import json
from typing import Any

from tests.engine_runs.graphs import Graphs

MODULE = "langchain_core.messages"
# The checkpoint before ``reply``.
BEFORE = -2


def message(kind: str, **fields: Any) -> dict[str, Any]:
    return {"__type__": f"{MODULE}.{kind}", "fields": fields}


CHANGED = message("human.HumanMessage", content="About dogs?", id="asked")
REMOVED = [message("modifier.RemoveMessage", id=name) for name in ("calling", "found")]
NEW = message("system.SystemMessage", content="Be brief.")


def forked(graphs: Graphs, messages: list[Any], **options: Any) -> str:
    """What a model is sent in a fork with these messages."""
    request = graphs.request("fork", "chat", "chat", BEFORE, state={"messages": messages}, **options)
    if graphs.version < (0, 6):
        # Its metadata name messages by a module of LangChain that needs agreement.
        request["accepted_effects"] = ["*"]
    ended = graphs.completed(request)
    assert graphs.nodes() == ["reply"]
    return str(ended.end["result"])


def test_an_edited_message_keeps_its_place_and_its_id(graphs: Graphs) -> None:
    assert forked(graphs, [CHANGED]) == "About dogs? |  | Nothing found."


def test_removed_and_new_messages(graphs: Graphs) -> None:
    assert forked(graphs, [*REMOVED, NEW]) == "About cats? | Be brief."


def test_messages_that_replace_all_others(graphs: Graphs) -> None:
    assert forked(graphs, [NEW, CHANGED], replace=["messages"]) == "Be brief. | About dogs?"


def test_a_fork_with_edited_messages_sends_what_update_state_of_langgraph_does(graphs: Graphs) -> None:
    edits = [CHANGED, *REMOVED, NEW]
    program = f"""
import json, sqlite3, sys, graphs
from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.sqlite import SqliteSaver
connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
graph = graphs.chat_graph().compile(checkpointer=SqliteSaver(connection))
start = list(graph.get_state_history({{"configurable": {{"thread_id": "chat"}}}}))[{-BEFORE - 1}].config
edits = [HumanMessage("About dogs?", id="asked"), RemoveMessage("calling"), RemoveMessage("found"),
         SystemMessage("Be brief.")]
config = graph.update_state(start, {{"messages": edits}})
print(json.dumps(graph.invoke(None, config)["messages"][-1].content))
"""
    ours = forked(graphs, edits)
    assert ours == "About dogs? | Be brief."
    if (0, 3) < graphs.version < (1, 0):
        # Its update_state repeats what ``reply`` wrote before, and sends nothing.
        return
    printed = graphs.by_engine(program, str(graphs.store))
    assert ours == json.loads(printed.splitlines()[-1])
