"""Reads values from the data of spool events, which a runner may have written wrongly."""

from typing import Any


def positive_integer(value: Any) -> int:
    """The value if it is a positive integer, else 0. A bool does not count as an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
