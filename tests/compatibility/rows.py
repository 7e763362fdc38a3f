"""The rows of the compatibility matrix, divided so that several processes can test them."""

from quality.compatibility.execution import rows_named

NOT_POSSIBLE = {"task order: conditional tasks ahead, without the project's code"}
CREWS = ("crew", "outputs", "components")
FLOWS = ("flow", "declared")


def titles(groups: tuple[str, ...]) -> list[str]:
    """Return the titles of the rows of these groups, or of all groups that no other file tests."""
    rows = rows_named()
    if not groups:
        return [row.title for row in rows if row.group not in CREWS + FLOWS]
    return [row.title for row in rows if row.group in groups]


def assert_passes(title: str, outcomes: dict[str, str]) -> None:
    verdict = outcomes[title].partition(":")[0]
    assert verdict == ("not possible" if title in NOT_POSSIBLE else "pass"), outcomes[title]
