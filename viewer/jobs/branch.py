"""What a branch may be called. Pure."""

import secrets
from collections.abc import Collection

MOST_CHARACTERS = 200


class BranchRefused(Exception):
    """A name cannot be a new branch's. Its message tells why, and what to do."""


def proposed_branch(checkpoint_id: str) -> str:
    """A name for a fork of this checkpoint, as the engine itself would make it."""
    return f"fork/{checkpoint_id}_{secrets.token_hex(3)}"


def checked_branch(name: str, existing: Collection[str]) -> str:
    """The name, for a new branch beside the ``existing`` ones. Raises BranchRefused.

    A branch is a folder below the location, so a name must not lead out of it.
    """
    if not name.strip():
        raise BranchRefused("The new branch needs a name.")
    if len(name) > MOST_CHARACTERS:
        raise BranchRefused(f"The branch's name is too long: {MOST_CHARACTERS} characters at most.")
    if not name.isprintable() or "\\" in name:
        raise BranchRefused("A branch's name may not hold backslashes or characters that cannot be seen.")
    parts = name.split("/")
    if any(not part.strip() or part != part.strip() or part in {".", ".."} for part in parts):
        raise BranchRefused(
            "A branch's name may not begin or end with a slash, nor hold '..' or an empty part."
        )
    if "_p-" in name or "#" in name or any(len(part.encode()) > MOST_CHARACTERS for part in parts):
        raise BranchRefused("A branch's name may not hold '#' or '_p-', which the engine reads as its own.")
    if name in existing:
        raise BranchRefused(f"There is a branch {name!r} already: choose another name.")
    return name
