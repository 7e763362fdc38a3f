"""Runs rows, two at a time, and returns their outcomes."""

import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from quality.compatibility.rows import ROWS, Row
from quality.compatibility.sandbox import Failed, NotPossible, Sandbox
from tests.engine_runs.model import model_server
from tests.engine_runs.prewarmed import WarmPython

AT_ONCE = 2
# In table order.
ROOMS = (
    *("crews", "outputs", "components", "crew_features", "task_order", "flows", "flow_results"),
    *("questions", "agents", "new_runs", "declared", "stores", "failures", "tool_calls", "replays"),
    *("flow_states", "exports"),
)


def rows_named(wanted: Sequence[str] = ()) -> list[Row]:
    """Return the rows whose ``group: name`` contains one of these parts, or all rows, sorted by group."""
    for room in ROOMS:
        importlib.import_module(f"quality.compatibility.rows.{room}")
    groups = list(dict.fromkeys(row.group for row in ROWS))
    ordered = sorted(ROWS, key=lambda row: groups.index(row.group))
    return [row for row in ordered if not wanted or any(part in row.title for part in wanted)]


def outcomes_of(plays: Sequence[tuple[Row, str, Path | WarmPython, Path]]) -> list[str]:
    """Return the result of ``outcome_of`` for each row, version, interpreter and recordings folder."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda play: outcome_of(*play), plays))


def outcome_of(row: Row, version: str, python: Path | WarmPython, recordings: Path) -> str:
    """Return ``pass``, ``pass: note``, ``fail: reason`` or ``not possible: reason``.

    With KEEP set, keep the folder of a failed row and name it.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="forkline-matrix-"))
    with model_server() as model:
        try:
            sandbox = Sandbox(python, version, folder, recordings, model)
            note = row.play(sandbox) or sandbox.note
            outcome = f"pass: {note}" if note else "pass"
        except NotPossible as reason:
            outcome = f"not possible: {reason}"
        except Failed as reason:
            outcome = f"fail: {reason}"
        except Exception as error:
            outcome = f"fail: {type(error).__name__}: {error}"
    if outcome.startswith("fail") and "KEEP" in os.environ:
        print(f"Kept in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{version}  {row.title}  {outcome}  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return outcome
