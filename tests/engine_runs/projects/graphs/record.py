"""Run a graph for real, as its user would: record.py STORE GRAPH THREAD INPUT, with the input as JSON."""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from typing import Any

import graphs
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command


def main(store: str, name: str, thread: str, given: str) -> None:
    """Run to the end, a question or a failure. An input {"resume": …} answers a question."""
    if name == "awaited":
        asyncio.run(run_async(store, thread, json.loads(given)))
        return
    with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
        graph = getattr(graphs, f"{name}_graph")().compile(checkpointer=SqliteSaver(connection))
        try:
            graph.invoke(input_of(json.loads(given)), {"configurable": {"thread_id": thread}})
        except ValueError as error:
            print(error)


def input_of(given: Any) -> Any:
    if isinstance(given, dict) and "resume" in given:
        return Command(resume=given["resume"])
    if isinstance(given, dict) and "ticket" in given:
        return {**given, "ticket": graphs.Ticket(**given["ticket"])}
    return given


async def run_async(store: str, thread: str, given: Any) -> None:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(store) as saver:
        graph = graphs.awaited_graph().compile(checkpointer=saver)
        await graph.ainvoke(given, {"configurable": {"thread_id": thread}})


if __name__ == "__main__":
    main(*sys.argv[1:5])
