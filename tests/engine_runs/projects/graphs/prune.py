"""Prune threads with LangGraph's own saver, as a user would: prune.py CONNECTION STRATEGY THREADS."""

import sys

from langgraph.checkpoint.postgres import PostgresSaver


def main(connection: str, strategy: str, *threads: str) -> None:
    """Keep only the newest checkpoint of each namespace, or delete all."""
    with PostgresSaver.from_conn_string(connection) as saver:
        saver.prune(threads, strategy=strategy)


main(*sys.argv[1:])
