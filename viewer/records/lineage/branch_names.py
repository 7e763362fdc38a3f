"""Names of branches. Pure functions."""

import re
from collections.abc import Collection, Sequence

from viewer.messages.message import UserFacingError

MAX_CHARACTERS = 200
# Characters of a name or value that a branch is named for, and how many edits are named.
MAX_PART, MAX_NAMED = 32, 2


class BranchRefused(UserFacingError):
    """The name is invalid or taken. The message says why, and how to correct it."""


def name_for(edits: Sequence[tuple[str, str]], taken: Collection[str]) -> str:
    """A free branch name for edits, each with what it changes and its new value, such as ``year-2030``.

    An empty value is not named: ``draft-edited``. An edit without a name, such as an answer, is its value.
    """
    parts = [_named(name, value) for name, value in edits]
    shown = [part for part in parts if part][:MAX_NAMED]
    more = len(edits) - len(shown)
    stem = "-".join([*shown, f"and-{more}-more"] if more and shown else shown) or "fork"
    return free_name(stem, taken)


def _named(name: str, value: str) -> str:
    name, value = _slug(name), _slug(value) if len(value) <= MAX_PART else ""
    if not name:
        return value
    return f"{name}-{value or 'edited'}"


def _slug(text: str) -> str:
    """The text in lower case, with hyphens for everything but letters and digits. Ends at a whole word."""
    words = re.sub(r"[^\w.]+|_", "-", text[: 4 * MAX_PART].lower()).strip("-.").split("-")
    kept = [words[0][:MAX_PART]]
    for word in words[1:]:
        if len("-".join([*kept, word])) > MAX_PART:
            break
        kept.append(word)
    return "-".join(word for word in (one.strip(".") for one in kept) if word)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name if it is free, else the name with the first free number appended."""
    if name not in taken:
        return name
    # Count on from a number that was appended before; a year in the name is not one.
    stem, _dash, number = name.rpartition("-")
    base = stem if stem in taken and number.isdigit() else name
    numbers = range(2, len(taken) + 3)
    free = (f"{base[: MAX_CHARACTERS - 8]}-{number}" for number in numbers)
    return next(one for one in free if one not in taken)


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
