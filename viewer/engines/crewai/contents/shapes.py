"""Convert hostile values to the expected type, or to an empty value of it. Nothing here raises."""

from datetime import UTC, datetime
from typing import Any


def text(value: Any) -> str:
    """Return the value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def listed(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int:
    """Return the value if it is an integer of at least 0, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def moment(value: Any) -> datetime | None:
    """Return an ISO time in UTC; None for any other value. A time without a time zone is taken as UTC."""
    try:
        at = datetime.fromisoformat(text(value))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
