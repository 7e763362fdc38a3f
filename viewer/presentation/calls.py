"""The model calls of a checkpoint, for their pages and the terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from viewer.engines.recorded_calls import CallMessage, RecordedCall
from viewer.models import Checkpoint
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.prices import UNKNOWN, Cost, PriceList, current_prices
from viewer.stores.model_calls import NO_CALL

# The most messages of a call that a page shows. The others are in the checkpoint itself.
MAX_MESSAGES = 200


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a checkpoint with what it cost. ``messages`` are the newest ones."""

    call: RecordedCall
    cost: Cost

    @property
    def messages(self) -> Sequence[CallMessage]:
        return self.call.messages[-MAX_MESSAGES:]

    @property
    def left_out(self) -> int:
        """The number of older messages that are not shown."""
        return max(0, len(self.call.messages) - MAX_MESSAGES)


@dataclass(frozen=True, slots=True)
class CallInCheckpoint:
    """A call, its place among those of the checkpoint, and the names of its neighbours."""

    view: CallView
    number: int
    total: int
    earlier: str
    later: str


def recorded_calls_of(checkpoint: Checkpoint) -> list[RecordedCall]:
    """The model calls of a checkpoint, oldest first. Raises NotReadable."""
    return calls_in(readable_contents(checkpoint))


def call_named(calls: Sequence[RecordedCall], name: str, checkpoint: Checkpoint) -> CallInCheckpoint | None:
    """The call with this name; None if there is none."""
    names = [call.name for call in calls]
    if name not in names:
        return None
    at = names.index(name)
    (view,) = call_views(calls[at : at + 1], checkpoint)
    earlier = names[at - 1] if at else ""
    later = names[at + 1] if at + 1 < len(names) else ""
    return CallInCheckpoint(view, at + 1, len(calls), earlier, later)


def call_views(calls: Iterable[RecordedCall], checkpoint: Checkpoint) -> list[CallView]:
    """The calls with what they cost, at the prices of their time."""
    prices = current_prices()
    return [CallView(call, _cost(call, prices, checkpoint)) for call in calls]


def _cost(call: RecordedCall, prices: PriceList, checkpoint: Checkpoint) -> Cost:
    used = call.usage
    if used == NO_CALL or not used.tokens:
        return UNKNOWN
    at = call.start or checkpoint.created_at
    amount = prices.price(used.model, used.tokens_in, used.tokens_out, used.cached, at)
    return Cost(amount, int(amount is None))
