"""The calls of tools and models that followed a checkpoint, as its run records them."""

from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Exists, OuterRef, Q

from viewer.engines import engine_of
from viewer.engines.plan import Step
from viewer.engines.recorded_calls import (
    RecordedAnswers,
    RecordedCall,
    RecordedTools,
    SpanSource,
    recorded_answer,
)
from viewer.engines.runner_protocol import RecordedAnswer
from viewer.host_requests import HostAway
from viewer.models import Checkpoint, Location, Run
from viewer.records.bodies import bodies_of

# Maximum checkpoints that are read if the newest one does not record all calls.
MAX_READ = 300
# Of a larger checkpoint, the calls are not read.
MAX_BYTES = 4 * 1024 * 1024


def recorded_tools(
    checkpoint: Checkpoint, steps: Sequence[Step], *, is_edited: bool = False
) -> RecordedTools:
    """The recorded calls that these steps of a fork or resume of the checkpoint would repeat.

    They are those of its branch; at the head of a branch, those of the branch that continued it last. Those
    of runs that were called, such as subgraphs, are among them, and if the checkpoint is in such a run, those
    of its caller. Not known if a checkpoint is too large, there are too many, or its host is away.
    ``is_edited`` if the run begins with another state.
    """
    found = _with_called(_with_continuation(checkpoint))
    sources, is_known = _sources(checkpoint.location, found)
    recorded = engine_of(checkpoint.location).recorded_tools(sources, steps, is_edited=is_edited)
    return replace(recorded, is_known=is_known)


def recorded_answers(checkpoint: Checkpoint) -> RecordedAnswers:
    """The recorded answers of the models: those that followed, then those before it.

    One that precedes the checkpoint, as a task may run again, answers the same messages only. A run that was
    called after the checkpoint, such as a subgraph, has all its answers in its newest one. If models report
    something with their answers, messages without it were written by code, and are none.
    """
    found = _with_called(_with_continuation(checkpoint), is_newest=True)
    sources, is_known = _sources(checkpoint.location, found)
    engine, calls_by_id, before = engine_of(checkpoint.location), dict[str, RecordedCall](), set[str]()
    for source in sources:
        calls = list(engine.recorded_calls(source.contents))
        calls_by_id |= {call.id: call for call in calls}
        if source is sources[0]:
            # A task that followed a thread's checkpoint wrote an answer that is not in its state.
            answered = [call for call in calls if call.answer]
            before = {call.id for call in answered if call.part or not call.is_conversation}
    ordered = sorted(calls_by_id.values(), key=lambda call: call.id in before)
    answers = [
        RecordedAnswer(**{**answer, "is_in_order": call.id not in before})
        for call in ordered
        if (answer := recorded_answer(call)) is not None
    ]
    certain = [one for one in answers if one["is_certain"]]
    return RecordedAnswers(certain or answers, is_known)


def _with_continuation(checkpoint: Checkpoint) -> list[Checkpoint]:
    """The checkpoint, and those that followed, also of its caller; the last if it has what all record."""
    found = [checkpoint, *_continuation(checkpoint)]
    if engine_of(checkpoint.location).has_all_spans_in_head:
        return [*found[:1], *found[1:][-1:]]
    caller = checkpoint.run.parent
    rows = caller.checkpoints.select_related("location", "run", "stored_copy") if caller else None
    outer = rows.filter(checkpoint_id=checkpoint.run.called_from).first() if rows else None
    return [*found, *_with_continuation(outer)] if outer else found


def _with_called(checkpoints: Sequence[Checkpoint], *, is_newest: bool = False) -> list[Checkpoint]:
    """The checkpoints, and after each those of the runs that it called; if ``is_newest``, the last of each.

    A run that remembers its state was called from several checkpoints, of which it has the first.
    """
    found, ids = list[Checkpoint](), {one.checkpoint_id for one in checkpoints[: MAX_READ + 1]}
    runs = {one.run_id for one in checkpoints}
    rows = Run.objects.filter(parent__in=runs).exclude(pk__in=runs).order_by("pk")
    is_called = Q(called_from__in=ids)
    if (created_at := checkpoints[0].created_at) is not None:
        is_called |= Q(Exists(Checkpoint.objects.filter(run=OuterRef("pk"), created_at__gt=created_at)))
    called = list(rows.filter(is_called)[: MAX_READ + 1])
    for one in checkpoints:
        found.append(one)
        for run in called:
            is_earlier = one is checkpoints[0] and run.called_from not in ids and not is_newest
            if len(found) > MAX_READ + 1 or not (is_earlier or run.called_from == one.checkpoint_id):
                continue
            inner = run.checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by("row")
            if is_earlier:
                inner = inner.filter(created_at__gt=one.created_at)
            if followed := list(inner.select_related("stored_copy")[: MAX_READ + 1]):
                below = _with_called(followed, is_newest=is_newest)
                found += [row for row in below if not is_newest or row not in followed[:-1]]
    return found


def _sources(location: Location, found: Sequence[Checkpoint]) -> tuple[list[SpanSource], bool]:
    """These checkpoints, and whether all of them could be read."""
    engine = engine_of(location)
    readable = [one for one in found[: MAX_READ + 1] if one.size <= MAX_BYTES]
    try:
        bodies = {one.pk: body for one, body in bodies_of(location, readable)}
    except HostAway:
        bodies = {}
    sources = [
        SpanSource(one.checkpoint_id, one.created_at, engine.contents_of(bodies[one.pk]))
        for one in readable
        if one.pk in bodies
    ]
    return sources, len(sources) == len(found)


def _continuation(checkpoint: Checkpoint) -> list[Checkpoint]:
    """The checkpoints that followed on the same branch, else on the newest one from here, oldest first."""
    rows = checkpoint.run.checkpoints.exclude(state=Checkpoint.State.NO_COPY).select_related("stored_copy")
    later = list(rows.filter(branch=checkpoint.branch, row__gt=checkpoint.row).order_by("row"))
    if not later and (child := checkpoint.children.order_by("-row").first()):
        later = list(rows.filter(branch=child.branch, row__gte=child.row).order_by("row"))
    return later
