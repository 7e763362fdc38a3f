"""Style sheets use the variables of variables.css wherever one has the value."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parents[3] / "static" / "css"
SHEETS = sorted(path for path in CSS.rglob("*.css") if path.name not in {"variables.css", "dark.css"})
VARIABLE = re.compile(r"--([a-z]+)(?:-[a-z0-9]+)?: (\d+)px;")
DECLARATION = re.compile(r"(?<![\w-])([a-z][a-z-]*)\s*:\s*([^;{}]*px[^;{}]*)[;}]")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
# The properties of each group of variables, by prefix.
PROPERTIES = {
    "gap": ("padding", "margin", "gap", "row-gap", "column-gap"),
    "text": ("font-size",),
    "line": ("line-height",),
    "radius": ("border-radius",),
    "control": ("min-height",),
}
GROUPS = [(beginning, group) for group, beginnings in PROPERTIES.items() for beginning in beginnings]


def variables() -> dict[str, set[str]]:
    """Return the pixel values that have a variable, by group."""
    found: dict[str, set[str]] = {group: set() for group in PROPERTIES}
    for group, value in VARIABLE.findall((CSS / "design" / "variables.css").read_text()):
        found.setdefault(group, set()).add(value)
    return found


def values_in(sheet: Path) -> Iterator[tuple[str, str, str]]:
    """Return each pixel value: the group of its variables, the number and the declaration."""
    for name, value in DECLARATION.findall(COMMENT.sub("", sheet.read_text())):
        if name == "font":
            size, line = [*re.findall(r"(?<![\w.-])([\d.]+)px", value.split()[-2]), "", ""][:2]
            yield from (("text", size, f"font: {value}"), ("line", line, f"font: {value}"))
        for beginning, group in GROUPS:
            if name.startswith(beginning):
                for number in re.findall(r"(?<![\w.-])([\d.]+)px", value):
                    yield group, number, f"{name}: {value}"


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.stem)
def test_a_value_that_has_a_variable_uses_it(sheet: Path) -> None:
    known = variables()
    raw = [declaration for group, number, declaration in values_in(sheet) if number in known[group]]

    assert raw == []


def test_the_values_of_a_sheet_are_found(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.css"
    sheet.write_text(".a { padding: 8px 3px; font: 12px/18px var(--mono); } @media (max-width: 8px) {}")

    assert [(group, number) for group, number, _ in values_in(sheet)] == [
        ("gap", "8"),
        ("gap", "3"),
        ("text", "12"),
        ("line", "18"),
    ]
