"""The rows of the table: the checks for each kind of run."""

from collections.abc import Callable
from dataclasses import dataclass

from quality.compatibility.sandbox import Sandbox

Play = Callable[[Sandbox], str | None]


@dataclass(frozen=True)
class Row:
    """A kind of run. ``play`` raises Failed or NotPossible, or returns a note for the table."""

    group: str
    name: str
    play: Play

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


ROWS: list[Row] = []


def row(group: str, name: str) -> Callable[[Play], Play]:
    """Register a function as a row."""

    def registered(play: Play) -> Play:
        ROWS.append(Row(group, name, play))
        return play

    return registered
