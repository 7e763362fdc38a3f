"""Prints what LangGraph's saver reads of each checkpoint of a store: tuples.py STORE."""

import json
import sys

from record import opened


def main(store: str) -> None:
    """Print the tuples by thread, namespace and id."""
    found = {}
    with opened(store) as saver:
        for one in list(saver.list(None)):
            key = one.config["configurable"]
            name = "/".join((key["thread_id"], key["checkpoint_ns"], key["checkpoint_id"]))
            found[name] = repr(saver.get_tuple(one.config))
    print(json.dumps(found))


main(sys.argv[1])
