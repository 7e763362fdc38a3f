"""The plan of a fork of LangGraph's checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewer.engines.langgraph.contents import Contents
from viewer.engines.outlook import Outlook
from viewer.engines.plan import EditRefused, Edits, Step, Unit


def units_of(contents: Contents) -> list[Unit]:
    """No units: a checkpoint says which nodes come next, not which there are."""
    return []


def read_source(folder: Path, entry_point: str, kind: str) -> Any:
    """What the source of an entry point says about the steps that follow."""
    return None


def plan(contents: Contents, edits: Edits, source: Any = None) -> list[Step]:
    """The steps of a fork with these edits. Raises EditRefused."""
    if edits != Edits():
        raise EditRefused("langgraph.not_editable")
    return []


def outlook(contents: Contents, source: Any = None) -> Outlook:
    """What the plan leaves open."""
    return Outlook()


def cost(contents: Contents, latest: Contents | None, steps: Sequence[Step]) -> tuple[int, int]:
    """The model calls and tokens that these steps used before."""
    return 0, 0
