"""The values that edits write to entries of the state."""

from collections.abc import Sequence
from typing import Any

from viewer.engines import engine_of
from viewer.engines.planning.editable import MessageEdit
from viewer.engines.planning.plan import EditRefused
from viewer.engines.protocol import Contents
from viewer.launching.requests.values import same_value
from viewer.messages.translation import translate


def added_value(stored: Any, typed: Any) -> Any:
    """What the reducer receives: the items that a typed list adds to the stored one, else the typed value."""
    if isinstance(stored, list) and isinstance(typed, list) and same_value(typed[: len(stored)], stored):
        return typed[len(stored) :]
    return typed


def written_messages(
    contents: Contents, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool
) -> tuple[Any, str]:
    """The value that edits of a conversation write, or None without edits; and an error, or an empty text."""
    if not edits:
        return None, ""
    try:
        return engine_of(contents).edited_messages(stored, edits, by_id=by_id), ""
    except EditRefused as refused:
        return None, translate(refused)
