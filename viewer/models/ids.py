"""Ids of rows in addresses and forms."""

from uuid import UUID


def uuid_of(text: str) -> UUID | None:
    """The UUID that this text writes; None if it is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None
