"""Compares the outcomes on a new release with the newest column of docs/matrix.md."""

from collections.abc import Mapping
from dataclasses import dataclass

from quality.compatibility.document import Key, as_numbers
from quality.compatibility.table import NOT_RUN

# From good to bad. A row that was not run before has only got worse if it fails now.
ORDER = ("pass", "not possible", "fail")


@dataclass(frozen=True)
class Change:
    """A row whose verdict has changed. ``now`` includes the reason."""

    title: str
    before: str
    now: str

    @property
    def is_worse(self) -> bool:
        verdict = verdict_of(self.now)
        if self.before not in ORDER:
            return verdict == "fail"
        return ORDER.index(verdict) > ORDER.index(self.before)


def verdict_of(outcome: str) -> str:
    """Return the outcome without its reason."""
    return outcome.partition(": ")[0]


def newest_of(versions: Mapping[str, object]) -> str:
    """Return the highest version number."""
    return max(versions, key=as_numbers)


def changes(before: Mapping[Key, str], now: Mapping[Key, str]) -> list[Change]:
    """Return the rows whose verdicts differ, in the order of ``now``. A row only in ``now`` is new."""
    found = []
    for (group, name), outcome in now.items():
        previous = verdict_of(before.get((group, name), NOT_RUN))
        if verdict_of(outcome) != previous:
            found.append(Change(f"{group}: {name}", previous, outcome))
    return found


def report(found: list[Change], version: str, previous: str) -> str:
    """Return one line per change, regressions first."""
    if not found:
        return f"Nothing changed between CrewAI {previous} and {version}."
    lines = [
        f"{'WORSE ' if change.is_worse else ''}{change.title}: {change.before} -> {change.now}"
        for change in sorted(found, key=lambda change: not change.is_worse)
    ]
    return "\n".join([f"Changed between CrewAI {previous} and {version}:", *lines])
