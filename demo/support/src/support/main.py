"""Run the support agent on a thread: python -m support.main STORE THREAD MESSAGE."""

import sqlite3
import sys
from contextlib import closing

from langgraph.checkpoint.sqlite import SqliteSaver

from support.graph import support_graph


def main(store: str, thread: str, message: str) -> None:
    """Run one turn of a conversation, up to its end or a question."""
    with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
        graph = support_graph().compile(checkpointer=SqliteSaver(connection))
        config = {"configurable": {"thread_id": thread}}
        graph.invoke({"messages": [{"role": "user", "content": message}]}, config)


if __name__ == "__main__":
    main(*sys.argv[1:4])
