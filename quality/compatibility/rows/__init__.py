"""The rows of the table: what must be seen of each kind of run."""

from collections.abc import Callable
from dataclasses import dataclass

from quality.compatibility.stage import Stage

Play = Callable[[Stage], str | None]


@dataclass(frozen=True)
class Row:
    """``play`` raises Failed or NotPossible; where it returns, what must be seen was seen.

    What it returns is a note that stands below the table.
    """

    group: str
    name: str
    play: Play

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


ROWS: list[Row] = []


def row(group: str, name: str) -> Callable[[Play], Play]:
    """Put a function into the table."""

    def placed(play: Play) -> Play:
        ROWS.append(Row(group, name, play))
        return play

    return placed
