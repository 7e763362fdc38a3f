"""The difference of a source between the code that a job recorded and the code now."""

from dataclasses import dataclass

from viewer.host_requests import CodeDifference
from viewer.presentation.diff import Stretch, difference, folded


@dataclass(frozen=True, slots=True)
class SourceText:
    """One text, None if it is not known, with what the other one lacks marked."""

    text: str | None
    stretches: list[Stretch]


def difference_of(found: CodeDifference) -> tuple[SourceText, SourceText]:
    """Return both texts, the earlier one first."""
    before, after = difference(found.before or "", found.after or "")
    return (
        SourceText(found.before, folded(before, "lines")),
        SourceText(found.after, folded(after, "lines")),
    )
