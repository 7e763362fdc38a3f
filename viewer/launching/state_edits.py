"""What an edit writes to an entry of the state."""

from collections.abc import Sequence
from typing import Any

from viewer.engines import engine_of
from viewer.engines.editable import MessageEdit
from viewer.engines.plan import EditRefused
from viewer.engines.protocol import Contents
from viewer.launching.values import same_value
from viewer.messages.translation import translate


def added_value(stored: Any, typed: Any) -> Any:
    """What the reducer is given: the items of a typed list after the stored ones, else what was typed."""
    if isinstance(stored, list) and isinstance(typed, list) and same_value(typed[: len(stored)], stored):
        return typed[len(stored) :]
    return typed


def written_messages(
    contents: Contents, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool
) -> tuple[Any, str]:
    """What edits of a conversation write, None if there are none, and why they cannot be written."""
    if not edits:
        return None, ""
    try:
        return engine_of(contents).edited_messages(stored, edits, by_id=by_id), ""
    except EditRefused as refused:
        return None, translate(refused)
