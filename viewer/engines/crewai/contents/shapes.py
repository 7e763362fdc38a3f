"""A hostile value as the shape one hopes for, or an empty one of that shape. Nothing here raises."""

from datetime import UTC, datetime
from typing import Any


def text(value: Any) -> str:
    """The text, or empty where it is none."""
    return value if isinstance(value, str) else ""


def listed(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int:
    """The whole number from 0 on, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def moment(value: Any) -> datetime | None:
    """An ISO time, in UTC (a time without a zone is taken for one), or None."""
    try:
        at = datetime.fromisoformat(text(value))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
