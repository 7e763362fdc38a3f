"""The sides of a comparison: checkpoints with what is compared of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from viewer.comparison.ancestry import Line, common_ancestor, line_of, since
from viewer.comparison.references import Reference, checkpoint_of, reference_in
from viewer.engines import engine_of
from viewer.engines.comparable import Part
from viewer.importing import NotReadable, body_of, stored_body
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint
from viewer.presentation.run.colors import branch_colours
from viewer.stores.model_calls import ModelUsage, PackedCall, usage_by_model

# How many checkpoints are compared at once, and how many ancestors of each are read.
MAX_SIDES, MAX_STEPS = 24, 40
ValueKey = tuple[str, str, str]


@dataclass(slots=True)
class Side:
    """One checkpoint. ``parts`` by section, key and trait; ``problem`` if it cannot be read.

    ``usage`` is that of the model calls so far.
    """

    reference: Reference
    checkpoint: Checkpoint
    colour: int
    line: Line
    parts: dict[ValueKey, Part] = field(default_factory=dict)
    usage: list[ModelUsage] = field(default_factory=list)
    # The periods in which the run worked, in seconds since the epoch.
    sessions: list[tuple[float, float]] = field(default_factory=list)
    problem: UserMessage | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides, the baseline first, and their newest common ancestor. ``unknown`` are texts that name none."""

    sides: list[Side]
    unknown: list[str]
    ancestor: Checkpoint | None = None

    @property
    def has_several_runs(self) -> bool:
        """Whether a branch's name alone would not say which side it is."""
        return len({side.checkpoint.run_id for side in self.sides}) > 1


def compared(texts: Sequence[str]) -> Comparison:
    """The sides that these references name, each once."""
    found: list[tuple[Reference, Checkpoint]] = []
    unknown: list[str] = []
    for text in dict.fromkeys(texts[:MAX_SIDES]):
        reference = reference_in(text)
        checkpoint = checkpoint_of(reference) if reference else None
        if reference is None or checkpoint is None:
            unknown.append(text)
        else:
            found.append((reference, checkpoint))
    return compared_checkpoints(found, unknown)


def compared_checkpoints(
    found: Sequence[tuple[Reference, Checkpoint]], unknown: Sequence[str] = ()
) -> Comparison:
    """The sides of these checkpoints, the baseline first."""
    sides = [
        Side(reference, row, branch_colours(row.run).get(row.branch, 0), line_of(row))
        for reference, row in found
    ]
    ancestor = common_ancestor([side.line for side in sides])
    for side in sides:
        _read(side, ancestor)
    rows = Checkpoint.objects.select_related("run", "parent")
    shared = rows.filter(pk=ancestor).first() if ancestor is not None else None
    return Comparison(sides, list(unknown), shared)


def _read(side: Side, ancestor: int | None) -> None:
    """Fill in the side's parts, or why it has none."""
    engine = engine_of(side.checkpoint.location)
    try:
        body = body_of(side.checkpoint)
    except NotReadable as error:
        side.problem = error.message
        return
    if not body:
        side.problem = UserMessage("store.not_shown")
        return
    contents = engine.contents_of(body)
    copy = getattr(side.checkpoint, "stored_copy", None)
    calls = [PackedCall(*call).call for call in copy.calls] if copy else engine.model_calls(contents)
    side.usage = usage_by_model(calls)
    side.sessions = [(start, end) for _position, start, end in copy.sessions] if copy else []
    steps = _steps(side, ancestor) if engine.compares_steps else []
    for part in engine.comparable(contents, steps):
        side.parts[_free_key(side.parts, part)] = part


def _free_key(parts: dict[ValueKey, Part], part: Part) -> ValueKey:
    """The part's key, with a number if it is not the first with it."""
    key, number = (str(part.section), part.key, part.trait), 1
    while key in parts:
        number += 1
        key = (key[0], f"{part.key} ({number})", key[2])
    return key


def _steps(side: Side, ancestor: int | None) -> list[Any]:
    """The contents of the ancestors since the common one, which belongs to the branch that continues it."""
    line = since(side.line, ancestor)[:-1]
    if len(line) > 1 and line[0].pk == ancestor and line[0].branch != line[1].branch:
        line = line[1:]
    rows = Checkpoint.objects.select_related("location__project", "run", "stored_copy")
    found = rows.in_bulk([one.pk for one in line[-MAX_STEPS:]])
    engine = engine_of(side.checkpoint.location)
    return [engine.contents_of(stored_body(found[one.pk])) for one in line[-MAX_STEPS:] if one.pk in found]
