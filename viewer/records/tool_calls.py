"""The calls of tools and models that followed a checkpoint, as its run records them."""

from collections.abc import Sequence
from dataclasses import replace

from viewer.engines import engine_of
from viewer.engines.plan import Step
from viewer.engines.recorded_calls import RecordedAnswers, RecordedCall, recorded_answer
from viewer.engines.runner_request import RecordedAnswer
from viewer.engines.spans import SpanSource
from viewer.engines.tool_calls import RecordedTools
from viewer.host_requests import HostAway
from viewer.models import Checkpoint, Location
from viewer.records.bodies import bodies_of

# Maximum checkpoints that are read if the newest one does not record all calls.
MAX_READ = 300
# Of a larger checkpoint, the calls are not read.
MAX_BYTES = 4 * 1024 * 1024


def recorded_tools(checkpoint: Checkpoint, steps: Sequence[Step]) -> RecordedTools:
    """The recorded calls that these steps of a fork or resume of the checkpoint would repeat.

    They are those of its branch; at the head of a branch, those of the branch that continued it last. Not
    known if a checkpoint is too large, there are too many, or its host is away.
    """
    sources, is_known = _sources(checkpoint.location, _with_continuation(checkpoint))
    recorded = engine_of(checkpoint.location).recorded_tools(sources, steps)
    return replace(recorded, is_known=is_known)


def recorded_answers(checkpoint: Checkpoint) -> RecordedAnswers:
    """The recorded answers of the models: those that followed, then those before it.

    One that precedes the checkpoint, as a task may run again, answers the same messages only. A run that was
    called after the checkpoint, such as a subgraph, has all its answers in its newest one. If models report
    something with their answers, messages without it were written by code, and are none.
    """
    found = _with_continuation(checkpoint)
    sources, is_known = _sources(checkpoint.location, [*found, *_called_by(found)])
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
    """The checkpoint, and those that followed; the last one if it has what all of them record."""
    found = [checkpoint, *_continuation(checkpoint)]
    if engine_of(checkpoint.location).has_all_spans_in_head:
        return [*found[:1], *found[1:][-1:]]
    return found


def _called_by(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The newest checkpoints of the runs that these checkpoints, or such a run, have called."""
    ids = [one.checkpoint_id for one in checkpoints[:MAX_READ]]
    found = list[Checkpoint]()
    waiting = list(checkpoints[0].run.called_runs.filter(called_from__in=ids)[:MAX_READ])
    while waiting and len(found) < MAX_READ:
        called = waiting.pop(0)
        rows = called.checkpoints.exclude(state=Checkpoint.State.NO_COPY).select_related("stored_copy")
        found += rows.order_by("-row")[:1]
        waiting += called.called_runs.all()[:MAX_READ]
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
