"""The model calls that checkpoints record."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# The largest values accepted from a checkpoint, which may be hostile.
MAX_TOKENS = 2**40
MAX_MODEL_NAME = 200


class ModelCall(NamedTuple):
    """The tokens of one model call.

    ``tokens`` is the reported total, ``cached`` the part of ``tokens_in`` that was read from a prompt cache.
    ``model`` is empty if it is not recorded.
    """

    tokens: int
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    model: str = ""

    @property
    def calls(self) -> int:
        """What it counts for in a ModelUsage."""
        return 1


NO_CALL = ModelCall(0)


class PackedCall(NamedTuple):
    """A call as it is stored: the position of its event in the record, and the call's own fields.

    Calls that were stored before models were recorded have the position and the total only.
    """

    position: int
    tokens: int
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    model: str = ""

    @property
    def call(self) -> ModelCall:
        return ModelCall(*self[1:])


class PackedSession(NamedTuple):
    """A stretch in which a run worked. A resume or fork begins another one.

    ``start`` and ``end`` are in seconds since the epoch. ``position`` is that of its first event.
    """

    position: int
    start: float
    end: float


# The names that providers and libraries give to the parts of a call's usage.
_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count")
_CACHED = (
    *("cached_prompt_tokens", "cached_tokens", "cache_read", "cache_read_input_tokens"),
    *("cache_read_tokens", "cached_content_token_count"),
)
_DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


def call_of(usage: Mapping[str, Any], model: str) -> ModelCall:
    """The call with this usage, as a provider or library reports it. Counts that are not reported are 0."""
    details: Mapping[str, Any] = next(
        (usage[name] for name in _DETAILS if isinstance(usage.get(name), dict)), {}
    )
    tokens_in, tokens_out = _first(usage, _TOKENS_IN), _first(usage, _TOKENS_OUT)
    cached = _first(usage, _CACHED) or _first(details, _CACHED)
    total = count_of(usage.get("total_tokens")) or tokens_in + tokens_out
    return ModelCall(total, tokens_in, tokens_out, min(cached, tokens_in), model[:MAX_MODEL_NAME])


def _first(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    return next((count for name in names if (count := count_of(usage.get(name)))), 0)


def count_of(value: Any) -> int:
    """The value if it is a positive integer, cut to the maximum; else 0."""
    return min(value, MAX_TOKENS) if isinstance(value, int) and value > 0 else 0


class ModelUsage(NamedTuple):
    """The calls of one model, added up."""

    model: str
    calls: int
    tokens: int
    tokens_in: int
    tokens_out: int
    cached: int


def usage_by_model(calls: Iterable[ModelCall]) -> list[ModelUsage]:
    """The usage of each model, most tokens first."""
    found: dict[str, ModelUsage] = {}
    for call in calls:
        _, count, *before = found.get(call.model, ModelUsage(call.model, 0, 0, 0, 0, 0))
        added = (old + new for old, new in zip(before, call[:4], strict=True))
        found[call.model] = ModelUsage(call.model, count + 1, *added)
    return sorted(found.values(), key=lambda usage: (-usage.tokens, usage.model))
