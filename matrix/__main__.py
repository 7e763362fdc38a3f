"""Runs the rows that are wanted on the versions that are wanted, two at a time, and prints the table."""

import importlib
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from matrix import environments
from matrix.rows import ROWS, Row
from matrix.stage import Failed, NotPossible, Stage, recordings_of
from matrix.table import table
from tests.engines.model_server import model_server

AT_ONCE = 2
# In the order of the table.
ROOMS = ("crews", "outputs", "parts", "orders", "flows", "agents", "stores", "weather")


def main() -> int:
    """0 where no row fails. VERSIONS and ROWS (parts of their names, comma or space) choose some."""
    for room in ROOMS:
        importlib.import_module(f"matrix.rows.{room}")
    versions = os.environ.get("VERSIONS", "").replace(",", " ").split()
    versions = versions or [*environments.VERSIONS, environments.newest()]
    wanted = [part.strip() for part in os.environ.get("ROWS", "").split(",") if part.strip()]
    rows = [row for row in ROWS if not wanted or any(part in f"{row.group}: {row.name}" for part in wanted)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pythons = dict(zip(versions, pool.map(environments.python_of, versions), strict=True))
        plays = [(row, version) for version in versions for row in rows]
        outcomes = list(pool.map(lambda play: played(play[0], play[1], pythons[play[1]]), plays))
    results = {
        (row.group, row.name, version): outcome
        for (row, version), outcome in zip(plays, outcomes, strict=True)
    }
    print(f"\n{time.strftime('%Y-%m-%d')}, CrewAI {', '.join(versions)}\n")
    print(table([(row.group, row.name) for row in rows], versions, results))
    return int(any(outcome.startswith("fail") for outcome in outcomes))


def played(row: Row, version: str, python: Path) -> str:
    """``pass``, ``fail: reason`` or ``not possible: reason``."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="forkline-matrix-"))
    with model_server() as model:
        stage = Stage(python, version, folder, recordings_of(python.parent.parent), model)
        try:
            row.play(stage)
            outcome = "pass"
        except NotPossible as reason:
            outcome = f"not possible: {reason}"
        except Failed as reason:
            outcome = f"fail: {reason}"
        except Exception as error:
            outcome = f"fail: {type(error).__name__}: {error}"
    if outcome.startswith("fail") and "KEEP" in os.environ:
        outcome += f" [{folder}]"
    else:
        shutil.rmtree(folder)
    said = f"{version}  {row.group}: {row.name}  {outcome}  {time.monotonic() - began:.0f} s"
    print(said, file=sys.stderr, flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
