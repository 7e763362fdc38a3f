"""Plays rows, two at a time, and says what came of each."""

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
from quality.compatibility.stage import Failed, NotPossible, Stage
from tests.runners.model_server import model_server
from tests.runners.warm_start import WarmPython

AT_ONCE = 2
# In the order of the table.
ROOMS = (
    "crews",
    "outputs",
    "parts",
    "beside",
    "orders",
    "flows",
    "results",
    "questions",
    "agents",
    "new_runs",
    "declared",
    "stores",
    "weather",
)


def rows_named(wanted: Sequence[str] = ()) -> list[Row]:
    """The rows whose ``group: name`` has one of these parts; all where there are none. By groups."""
    for room in ROOMS:
        importlib.import_module(f"quality.compatibility.rows.{room}")
    groups = list(dict.fromkeys(row.group for row in ROWS))
    placed = sorted(ROWS, key=lambda row: groups.index(row.group))
    return [row for row in placed if not wanted or any(part in row.title for part in wanted)]


def outcomes_of(plays: Sequence[tuple[Row, str, Path | WarmPython, Path]]) -> list[str]:
    """For each row, version, interpreter and folder of recordings: what ``outcome_of`` says."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda play: outcome_of(*play), plays))


def outcome_of(row: Row, version: str, python: Path | WarmPython, recordings: Path) -> str:
    """``pass``, ``pass: note``, ``fail: reason`` or ``not possible: reason``.

    With KEEP in the environment, the folder of what failed is kept, and named.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="forkline-matrix-"))
    with model_server() as model:
        try:
            stage = Stage(python, version, folder, recordings, model)
            note = row.play(stage) or stage.note
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
