"""What lists show of runs besides their checkpoints: the inputs that distinguish runs of one name, and costs.

Imports store the rows of checkpoints first. This follows in the worker, or before a command that shows it.
Both are stored with the run, because a list has hundreds of rows.
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import OuterRef, Subquery

from viewer.engines import engine_of
from viewer.engines.protocol import Engine
from viewer.importing.addresses import is_indexed
from viewer.importing.import_lock import import_lock
from viewer.importing.reconciling.runs import status_after
from viewer.importing.stored_copies.stored import decoded_copy, stored_body
from viewer.models import Checkpoint, Location, Run
from viewer.models.many_rows import update_many
from viewer.prices import current_prices, price_runs

# Seconds of one step in the background, and runs of one batch.
STEP_SECONDS, BATCH = 0.4, 50
# Inputs of a run, and characters of one.
MAX_INPUTS, MAX_CHARACTERS = 12, 120


def locations_to_describe() -> list[Location]:
    """The locations with runs whose inputs or cost are not stored yet, or whose prices have changed."""
    digest = current_prices().digest
    return [
        location
        for location in Location.objects.order_by("pk")
        if location.price_digest != digest
        or location.runs.filter(is_priced=False).exists()
        or (location.runs.without_inputs().exists() and not is_indexed(location))
    ]


def describe_runs(location: Location, *, max_seconds: float = math.inf) -> bool:
    """Store the inputs and costs of runs, newest first, and refresh open pages. Returns whether any were due.

    With a time limit, this is a step in the background: it does nothing while another process imports the
    location. Raises OSError if the lock file cannot be opened.
    """
    with import_lock(location, wait=max_seconds == math.inf) as is_ours:
        if not is_ours or not location.refresh_if_exists():
            return False
        location.refresh_from_db(fields=["price_digest"])
        started, is_news = time.monotonic(), price_runs(location)
        # An import of an indexed location reads the inputs at the source.
        while not is_indexed(location) and time.monotonic() - started < max_seconds:
            if not _describe_batch(location):
                break
            is_news = True
        if is_news:
            location.mark_changed()
        return is_news


def _describe_batch(location: Location) -> bool:
    """Describe a batch of runs by the inputs in their first checkpoints. Returns whether there were any."""
    checkpoints = Checkpoint.objects.filter(run=OuterRef("pk"))
    readable = checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by("row")
    recorded = checkpoints.exclude(source_key__startswith=Checkpoint.SCRATCH).order_by("-row")
    due = location.runs.without_inputs().annotate(
        first_pk=Subquery(readable.values("pk")[:1]), newest_pk=Subquery(recorded.values("pk")[:1])
    )
    runs = list(due.values_list("pk", "first_pk", "newest_pk")[:BATCH])
    pks = {pk for _, *both in runs for pk in both if pk is not None}
    found = Checkpoint.objects.select_related("stored_copy", "location").in_bulk(pks)
    engine, described = engine_of(location), []
    for pk, first_pk, newest_pk in runs:
        inputs = described_inputs(engine, [stored_body(found[first_pk])]) if first_pk in found else []
        # Runs that an earlier version imported have no status yet.
        status = status_after(found[newest_pk]) if newest_pk in found else ""
        described.append((json.dumps(inputs), status, True, pk))
    update_many(Run, ("inputs", "status", "is_described"), described)
    return bool(runs)


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
