"""Renders rows and versions as a Markdown table."""

from collections.abc import Mapping, Sequence

MAX_REASON = 160
NOT_RUN = "not run"


def table(
    rows: Sequence[tuple[str, str]], versions: Sequence[str], results: Mapping[tuple[str, str, str], str]
) -> str:
    """Return a table with one line per row (a group and a name) and one column per version.

    Reasons are listed once below the table. Cells hold their numbers.
    """
    reasons: list[str] = []
    lines = ["| | | " + " | ".join(versions) + " |", "|---" * (len(versions) + 2) + "|"]
    previous = ""
    for group, name in rows:
        cells = [_cell(results.get((group, name, version), NOT_RUN), reasons) for version in versions]
        lines.append(f"| {group if group != previous else ''} | {name} | " + " | ".join(cells) + " |")
        previous = group
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes] if notes else lines)


def _cell(result: str, reasons: list[str]) -> str:
    verdict, _, reason = result.partition(": ")
    if not reason:
        return verdict
    reason = " ".join(reason.split()).replace("|", "\\|")[:MAX_REASON]
    if reason not in reasons:
        reasons.append(reason)
    return f"{verdict} ({reasons.index(reason) + 1})"
