"""The tool calls that followed a checkpoint, as its run records them."""

from collections.abc import Sequence
from dataclasses import replace

from viewer.engines import engine_of
from viewer.engines.plan import Step
from viewer.engines.spans import SpanSource
from viewer.engines.tool_calls import RecordedTools
from viewer.host_requests import HostAway
from viewer.models import Checkpoint
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
    engine = engine_of(checkpoint.location)
    found = [checkpoint, *_continuation(checkpoint)]
    if engine.has_all_spans_in_head:
        found = [*found[:1], *found[1:][-1:]]
    readable = [one for one in found[: MAX_READ + 1] if one.size <= MAX_BYTES]
    try:
        bodies = {one.pk: body for one, body in bodies_of(checkpoint.location, readable)}
    except HostAway:
        bodies = {}
    sources = [
        SpanSource(one.checkpoint_id, one.created_at, engine.contents_of(bodies[one.pk]))
        for one in readable
        if one.pk in bodies
    ]
    recorded = engine.recorded_tools(sources, steps)
    return replace(recorded, is_known=len(sources) == len(found))


def _continuation(checkpoint: Checkpoint) -> list[Checkpoint]:
    """The checkpoints that followed on the same branch, else on the newest one from here, oldest first."""
    rows = checkpoint.run.checkpoints.exclude(state=Checkpoint.State.NO_COPY).select_related("stored_copy")
    later = list(rows.filter(branch=checkpoint.branch, row__gt=checkpoint.row).order_by("row"))
    if not later and (child := checkpoint.children.order_by("-row").first()):
        later = list(rows.filter(branch=child.branch, row__gte=child.row).order_by("row"))
    return later
