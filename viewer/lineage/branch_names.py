"""Names of branches. Pure functions."""

import secrets
from collections.abc import Collection

from viewer.messages.message import UserFacingError

MAX_CHARACTERS = 200


class BranchRefused(UserFacingError):
    """The name is invalid or taken. The message says why, and how to correct it."""


def proposed_branch(checkpoint_id: str) -> str:
    """The name that the engine itself would give a fork of this checkpoint."""
    return f"fork/{checkpoint_id}_{secrets.token_hex(3)}"


def attempt_label(branch: str, number: int) -> str:
    """The name of a later continuation of a branch. ``number`` is 2 or more."""
    return f"{branch}, attempt {number}"


def checked_branch(name: str, existing: Collection[str]) -> str:
    """Return the name of a new branch in addition to the ``existing`` ones. Raises BranchRefused.

    A branch is a folder below the location, so a name must not lead out of it.
    """
    if not name.strip():
        raise BranchRefused("branch.name_missing")
    if len(name) > MAX_CHARACTERS:
        raise BranchRefused("branch.name_too_long", most=MAX_CHARACTERS)
    if not name.isprintable() or "\\" in name:
        raise BranchRefused("branch.name_has_hidden_characters")
    parts = name.split("/")
    if any(not part.strip() or part != part.strip() or part in {".", ".."} for part in parts):
        raise BranchRefused("branch.name_has_empty_part")
    if "_p-" in name or "#" in name or any(len(part.encode()) > MAX_CHARACTERS for part in parts):
        raise BranchRefused("branch.name_reserved")
    if name in existing:
        raise BranchRefused("branch.exists", name=name)
    return name
