"""Compares the outcomes on a new release with the newest column of docs/matrix.md."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matrix.environments import ROOT

DOCUMENT = ROOT / "docs/matrix.md"
# From good to bad. A row that was not run before cannot have got worse, unless it fails now.
ORDER = ("pass", "not possible", "fail")
NOT_RUN = "not run"
NOTE = re.compile(r" \(\d+\)$")
Key = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """A row with two different verdicts. ``now`` has the reason, too."""

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
    """The outcome without its reason."""
    return outcome.partition(": ")[0]


def read_table(text: str) -> dict[str, dict[Key, str]]:
    """The verdict of each row, a group and a name, for each version of the one table in the text.

    Raises ValueError where there is no table.
    """
    columns: dict[str, dict[Key, str]] = {}
    group = ""
    for line in text.splitlines():
        if not line.startswith("| "):
            continue
        # A "|" in a cell is escaped.
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns:
            columns = {version: {} for version in cells[2:]}
            continue
        group = cells[0] or group
        for version, cell in zip(columns, cells[2:], strict=True):
            columns[version][group, cells[1]] = NOTE.sub("", cell)
    if not columns:
        raise ValueError("no table of versions")
    return columns


def newest_of(versions: Mapping[str, object]) -> str:
    """The highest of these version numbers."""
    return max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def recorded(document: Path = DOCUMENT) -> dict[str, dict[Key, str]]:
    """What ``docs/matrix.md`` says. Raises ValueError where it has no table."""
    return read_table(document.read_text())


def changes(before: Mapping[Key, str], now: Mapping[Key, str]) -> list[Change]:
    """The rows whose verdicts differ, in the order of ``now``. A row that is in ``now`` only was not run."""
    found = []
    for (group, name), outcome in now.items():
        previous = before.get((group, name), NOT_RUN)
        if verdict_of(outcome) != previous:
            found.append(Change(f"{group}: {name}", previous, outcome))
    return found


def report(found: list[Change], version: str, previous: str) -> str:
    """One line for each change, with what got worse first."""
    if not found:
        return f"Nothing changed between CrewAI {previous} and {version}."
    lines = [
        f"{'WORSE ' if change.is_worse else ''}{change.title}: {change.before} -> {change.now}"
        for change in sorted(found, key=lambda change: not change.is_worse)
    ]
    return "\n".join([f"Changed between CrewAI {previous} and {version}:", *lines])
