"""Describe runs for lists by the inputs that distinguish runs with the same name.

A list has hundreds of rows, so the inputs are read once and stored with the run.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from viewer.engines import engine_of
from viewer.engines.protocol import Engine
from viewer.importing.reconciling.runs import status_after
from viewer.importing.stored_copies.stored import decoded_copy, stored_body
from viewer.models import Checkpoint, Location, Run
from viewer.models.many_rows import update_many

# Seconds of one import, and runs of one batch.
MAX_SECONDS, BATCH = 0.4, 50
# Inputs of a run, and characters of one.
MAX_INPUTS, MAX_CHARACTERS = 12, 120


def describe_stored(location: Location) -> bool:
    """Describe runs by their stored copies, newest first, within a time limit.

    Returns whether a page has to be refreshed.
    """
    started, engine, is_news = time.monotonic(), engine_of(location), False
    for run in location.runs.without_inputs()[:BATCH]:
        _describe_from_copy(run, engine)
        is_news = True
        if time.monotonic() - started > MAX_SECONDS:
            break
    return is_news


def _describe_from_copy(run: Run, engine: Engine[Any]) -> None:
    """Describe a run by the inputs in its first checkpoint."""
    rows = run.checkpoints.select_related("location", "stored_copy").order_by("row")
    readable = rows.exclude(state=Checkpoint.State.NO_COPY)
    recorded = rows.exclude(source_key__startswith=Checkpoint.SCRATCH)
    first, newest = readable.first(), recorded.last()
    inputs = described_inputs(engine, [stored_body(first)]) if first else []
    # Runs that an earlier version imported have no status yet.
    status = status_after(newest) if newest else ""
    Run.objects.filter(pk=run.pk).update(inputs=inputs, status=status, is_described=True)


def describe_indexed(engine: Engine[Any], read: Mapping[int, Sequence[bytes]]) -> None:
    """Describe runs, by primary key, by compressed copies of their first and newest checkpoints."""
    found = {pk: described_inputs(engine, map(decoded_copy, copies)) for pk, copies in read.items()}
    rows = [(json.dumps(inputs), True, pk) for pk, inputs in found.items()]
    update_many(Run, ("inputs", "is_described"), rows)


def described_inputs(engine: Engine[Any], bodies: Iterable[dict[str, Any]]) -> list[list[str]]:
    """The inputs of the first of these checkpoints that names any."""
    found = (engine.run_inputs(engine.contents_of(body)) for body in bodies)
    inputs = next(filter(None, found), {})
    return [[name[:MAX_CHARACTERS], short_text(value)] for name, value in inputs.items()][:MAX_INPUTS]


def short_text(value: Any) -> str:
    """The value as one line of at most ``MAX_CHARACTERS``."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 4 * MAX_CHARACTERS].split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}…"
