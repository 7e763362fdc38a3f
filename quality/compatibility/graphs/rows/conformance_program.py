"""Validates the saver that Forkline runs graphs with: conformance_program.py RUNNERS FOLDER.

Prints the number of passed tests and the failures as JSON. Each capability has its own store in FOLDER.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

CAPABILITIES = {"put", "put_writes", "get_tuple", "list"}


def main(runners: str, folder: str) -> None:
    sys.path.insert(0, runners)
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    from forkline_langgraph import savers
    from forkline_langgraph.effects import Loadable

    loadable = Loadable({"entry_point": "", "entry_points": [], "accepted_effects": ["*"]})  # type: ignore[typeddict-item]
    numbers = count()

    @checkpointer_test(name="forkline")  # type: ignore[untyped-decorator]
    async def made() -> AsyncIterator[Any]:
        path = Path(folder) / f"store_{next(numbers)}.sqlite"
        connection = sqlite3.connect(path, check_same_thread=False)
        yield savers.saver_on(connection, path, loadable, None, "")
        connection.close()

    report = asyncio.run(validate(made, capabilities=CAPABILITIES))
    results = [report.results[name] for name in sorted(CAPABILITIES)]
    passed = sum(one.tests_passed for one in results)
    print(
        json.dumps({"passed": passed, "failures": [failure for one in results for failure in one.failures]})
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])
