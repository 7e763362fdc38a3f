"""What a branch may be called. Pure."""

import secrets
from collections.abc import Collection

from viewer.messages.message import Worded
from viewer.messages.message import gettext_noop as _

MOST_CHARACTERS = 200


class BranchRefused(Worded):
    """A name cannot be a new branch's. Its message tells why, and what to do."""


def proposed_branch(checkpoint_id: str) -> str:
    """A name for a fork of this checkpoint, as the engine itself would make it."""
    return f"fork/{checkpoint_id}_{secrets.token_hex(3)}"


def checked_branch(name: str, existing: Collection[str]) -> str:
    """The name, for a new branch beside the ``existing`` ones. Raises BranchRefused.

    A branch is a folder below the location, so a name must not lead out of it.
    """
    if not name.strip():
        raise BranchRefused(_("The new branch needs a name."))
    if len(name) > MOST_CHARACTERS:
        raise BranchRefused(
            _("The branch's name is too long: %(most)d characters at most."), most=MOST_CHARACTERS
        )
    if not name.isprintable() or "\\" in name:
        raise BranchRefused(_("A branch's name may not hold backslashes or characters that cannot be seen."))
    parts = name.split("/")
    if any(not part.strip() or part != part.strip() or part in {".", ".."} for part in parts):
        raise BranchRefused(
            _("A branch's name may not begin or end with a slash, nor hold '..' or an empty part.")
        )
    if "_p-" in name or "#" in name or any(len(part.encode()) > MOST_CHARACTERS for part in parts):
        raise BranchRefused(
            _("A branch's name may not hold '#' or '_p-', which the engine reads as its own.")
        )
    if name in existing:
        raise BranchRefused(_("There is a branch %(name)r already: choose another name."), name=name)
    return name
