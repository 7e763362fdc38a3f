"""Run a graph for real, as its user would: record.py STORE GRAPH THREAD INPUT, with the input as JSON.

STORE is a SQLite file, or a connection string of PostgreSQL. ``shallow `` before that uses the shallow saver.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import graphs
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

# One node after the other, in their order: a failure cancels nodes beside it that have not finished.
IN_TURN = {"max_concurrency": 1}


def main(store: str, name: str, thread: str, given: str) -> None:
    """Run to the end, a question or a failure. An input {"resume": …} answers a question."""
    if name == "awaited":
        asyncio.run(run_async(store, thread, json.loads(given)))
        return
    # The shallow saver writes one checkpoint late, and then deletes the interrupts of the next.
    options: Any = {"durability": "sync"} if store.startswith("shallow ") else {}
    with opened(store) as saver:
        graph = getattr(graphs, f"{name}_graph")().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": thread}, **IN_TURN}
        try:
            graph.invoke(input_of(json.loads(given)), config, **options)
        except ValueError as error:
            print(error)


@contextmanager
def opened(store: str) -> Iterator[Any]:
    """The engine's saver on a store, whose tables exist."""
    if "host=" not in store:
        with closing(sqlite3.connect(store, check_same_thread=False)) as connection:
            yield SqliteSaver(connection)
        return
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

    type_ = ShallowPostgresSaver if store.startswith("shallow ") else PostgresSaver
    with type_.from_conn_string(store.removeprefix("shallow ")) as saver:
        saver.setup()
        yield saver


def input_of(given: Any) -> Any:
    if isinstance(given, dict) and "resume" in given:
        return Command(resume=given["resume"])
    if isinstance(given, dict) and "ticket" in given:
        return {**given, "ticket": graphs.Ticket(**given["ticket"])}
    return given


async def run_async(store: str, thread: str, given: Any) -> None:
    async with async_saver(store) as saver:
        if hasattr(saver, "pipe"):
            await saver.setup()
        graph = graphs.awaited_graph().compile(checkpointer=saver)
        await graph.ainvoke(given, {"configurable": {"thread_id": thread}})


def async_saver(store: str) -> Any:
    if "host=" not in store:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        return AsyncSqliteSaver.from_conn_string(store)
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    return AsyncPostgresSaver.from_conn_string(store)


if __name__ == "__main__":
    main(*sys.argv[1:5])
