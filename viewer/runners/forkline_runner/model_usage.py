"""Reads the tokens that a model call used. Providers and libraries have several names for each number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_TOKENS_IN = ("prompt_tokens", "input_tokens")
_TOKENS_OUT = ("completion_tokens", "output_tokens")
_CACHED = (
    "cached_prompt_tokens",
    "cached_tokens",
    "cache_read",
    "cache_read_input_tokens",
    "cache_read_tokens",
)
_DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


def used_tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return ``tokens``, ``tokens_in``, ``tokens_out`` and ``cached`` of one call; 0 if not reported."""
    reported = (usage.get(name) for name in _DETAILS)
    details: Mapping[str, Any] = next((one for one in reported if isinstance(one, Mapping)), {})
    tokens_in, tokens_out = _first(usage, _TOKENS_IN), _first(usage, _TOKENS_OUT)
    return {
        "tokens": _first(usage, ("total_tokens",)) or tokens_in + tokens_out,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "cached": _first(usage, _CACHED) or _first(details, _CACHED),
    }


def _first(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    values = (usage.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), 0)
