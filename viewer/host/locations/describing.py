"""What lists show of runs besides their checkpoints: their inputs, costs and unrecorded ends.

Imports store the rows of checkpoints first. This follows in the worker, or before a command that shows it.
All are stored with the run, because a list has hundreds of rows.
"""

import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from viewer.engines import engine_of
from viewer.engines.protocol import Engine
from viewer.host.confined import confined
from viewer.host.locations.sources import import_lock
from viewer.host.permitted import refusal_of
from viewer.host.projects import propose_project
from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.models.jobs import UNFINISHED
from viewer.models.rows import update_many
from viewer.records.bodies import decoded_copy, stored_body
from viewer.records.bucket import BucketAway
from viewer.records.locations import is_indexed
from viewer.records.prices import current_prices, price_runs
from viewer.records.run_rows import update_statuses

# Seconds of one step in the background, and runs of one batch.
STEP_SECONDS, BATCH = 0.4, 50
# Inputs of a run, and characters of one.
MAX_INPUTS, MAX_CHARACTERS = 12, 120


def locations_to_describe() -> list[Location]:
    """The locations with runs whose inputs or cost are not stored yet, or whose prices have changed."""
    digest = current_prices().digest
    return [
        location
        for location in Location.objects.here().order_by("pk")
        if location.price_digest != digest
        or location.runs.filter(is_priced=False).exists()
        or (
            not is_indexed(location)
            and (location.runs.without_inputs().exists() or _undecided_ends(location).exists())
        )
    ]


def find_ends(location: Location) -> None:
    """Find the ends of runs that their checkpoints do not record, as ``describe_runs`` does.

    Raises OSError if the lock file cannot be opened.
    """
    if not is_indexed(location) and _undecided_ends(location).exists():
        with import_lock(location):
            location.refresh_from_db(fields=["project"])
            with suppress(BucketAway):
                while _find_ends(location):
                    pass


def describe_runs(location: Location, *, max_seconds: float = math.inf) -> bool:
    """Store the inputs, costs and ends of runs, newest first, and refresh open pages.

    Returns whether any were due.

    With a time limit, this is a step in the background: it does nothing while another process imports the
    location. Raises OSError if the lock file cannot be opened.
    """
    with import_lock(location, wait=max_seconds == math.inf) as is_ours:
        if not is_ours or not location.refresh_if_exists():
            return False
        location.refresh_from_db(fields=["price_digest", "project"])
        started, is_news = time.monotonic(), price_runs(location)
        # An import of an indexed location reads the inputs at the source.
        # Without its copies, a run is described later.
        with suppress(BucketAway):
            while not is_indexed(location) and time.monotonic() - started < max_seconds:
                if not (_describe_batch(location) or _find_ends(location)):
                    break
                is_news = True
        if is_news:
            location.mark_changed()
        return is_news


def _describe_batch(location: Location) -> bool:
    """Describe a batch of runs by the inputs in their first checkpoints. Returns whether there were any."""
    checkpoints = Checkpoint.objects.filter(run=OuterRef("pk"))
    readable = checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by("row")
    due = location.runs.without_inputs().annotate(first_pk=Subquery(readable.values("pk")[:1]))
    runs = list(due.values_list("pk", "first_pk", "newest_status", "status")[:BATCH])
    pks = [first_pk for _pk, first_pk, *_statuses in runs if first_pk is not None]
    found = Checkpoint.objects.select_related("stored_copy", "location").in_bulk(pks)
    described = []
    for pk, first_pk, *_statuses in runs:
        inputs = _described_inputs(location, [stored_body(found[first_pk])]) if first_pk in found else []
        described.append((json.dumps(inputs), True, pk))
    update_many(Run, ("inputs", "is_described"), described)
    # Runs that an earlier version imported have no status yet.
    update_statuses([pk for pk, _first_pk, *statuses in runs if not any(statuses)])
    return bool(runs)


def _undecided_ends(location: Location) -> QuerySet[Checkpoint]:
    """The newest checkpoints of branches of which only the project's source shows whether they are ends."""
    kinds = engine_of(location).kinds.values()
    triggers = {kind.last_trigger for kind in kinds if kind.last_trigger}
    entities = [kind.name for kind in kinds if kind.last_trigger]
    if not location.runs.filter(entity__in=entities).exists():
        # Most locations need no search among all their checkpoints.
        return location.checkpoints.none()
    found = location.checkpoints.filter(
        is_branch_head=True, is_open_ended=True, ended_as="", trigger__in=triggers, units_total=0
    )
    unreadable = (Checkpoint.State.NO_COPY, Checkpoint.State.BROKEN)
    return found.exclude(state__in=unreadable).exclude(run__jobs__status__in=UNFINISHED)


def _find_ends(location: Location) -> bool:
    """Ask the project's source for a batch of undecided ends. Returns whether there were any."""
    engine, asked = engine_of(location), set[int]()
    heads = list(_undecided_ends(location).select_related("stored_copy", "location").order_by("-pk")[:BATCH])
    folder, points = _source_of(location) if heads else (Path(), [])
    for head in heads:
        source = confined(folder, partial(_source, engine, folder, points, head.entity, head.name))
        if source is None:
            ended_as = Checkpoint.UNKNOWN
        else:
            has_finished = engine.has_finished(engine.contents_of(stored_body(head)), source)
            ended_as = Checkpoint.COMPLETED if has_finished else Checkpoint.OPEN
        Checkpoint.objects.filter(pk=head.pk, ended_as="").update(ended_as=ended_as)
        asked.add(head.run_id)
    update_statuses(asked)
    return bool(heads)


def _source(engine: Engine[Any], folder: Path, points: list[str], entity: str, name: str) -> Any:
    """What the source of an entry point shows; None if it is not clear which one that is."""
    entry_point = engine.entry_point_for(folder, points, entity, name) if points else ""
    return engine.read_source(folder, entry_point, entity) if entry_point else None


def _source_of(location: Location) -> tuple[Path, list[str]]:
    """The folder and entry points of a location's project, or of the one that contains the location."""
    if location.project is not None:
        if refusal_of(location.project.folder):
            return Path(), []
        return Path(location.project.folder), list(location.project.entry_points)
    return _proposed_source(location.path, location.engine)


@lru_cache(maxsize=100)
def _proposed_source(path: str, engine: str) -> tuple[Path, list[str]]:
    """Searched once by each process, because all source files below a folder are read."""
    found = confined(Path(path), lambda: propose_project(Path(path), engine))
    return found.folder, [point.name for point in found.entry_points]


def describe_indexed(location: Location, pks: Mapping[str, int], read: Mapping[int, Sequence[bytes]]) -> None:
    """Describe runs, by key, by compressed copies of their first and newest checkpoints."""
    edited = _edited_names(location, pks)
    found = {
        pk: _described_inputs(location, map(decoded_copy, copies), edited.get(pk, ()))
        for pk, copies in read.items()
    }
    rows = [(json.dumps(inputs), True, pk) for pk, inputs in found.items()]
    update_many(Run, ("inputs", "is_described"), rows)


def _edited_names(location: Location, pks: Mapping[str, int]) -> dict[int, list[str]]:
    """The names of the edited values of the runs, by key, as which forks were published."""
    events = JobEvent.objects.filter(kind="published", job__location=location, data__thread__in=list(pks))
    found: dict[int, list[str]] = {}
    for event in events.select_related("job", "job__checkpoint").order_by("job__created_at"):
        job = event.job
        if job.kind == Job.Kind.PUBLISH and job.checkpoint is not None and job.checkpoint.is_scratch:
            job = Job.objects.filter(pk=job.checkpoint.scratch_job).first() or job
        names = [name for part in ("inputs", "state") for name in job.request.get(part) or {}]
        found[pks[str(event.data["thread"])]] = names
    return found


def _described_inputs(
    location: Location, bodies: Iterable[dict[str, Any]], edited: Collection[str] = ()
) -> list[list[str]]:
    """The inputs of the first of these checkpoints that names any, or the edited values of a fork."""
    engine = engine_of(location)
    contents = [engine.contents_of(body) for body in bodies]
    inputs = engine.edited_inputs(contents[0], contents[-1], edited) if edited and contents else {}
    inputs = inputs or next(filter(None, map(engine.run_inputs, contents)), {})
    return [[name[:MAX_CHARACTERS], short_text(value)] for name, value in inputs.items()][:MAX_INPUTS]


def short_text(value: Any) -> str:
    """The value as one line of at most ``MAX_CHARACTERS``."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 4 * MAX_CHARACTERS].split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}…"
