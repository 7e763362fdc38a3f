"""The layout of templates: one folder per screen, partials, and short lines."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
FILES = sorted(TEMPLATES.rglob("*.html"))
MAX_LINE = 120
INCLUDE = re.compile(r"""{% (?:include|extends) ["']([^"']+)["']""")


def name_of(path: Path) -> str:
    return path.relative_to(TEMPLATES).as_posix()


def test_lines_have_at_most_120_characters() -> None:
    long = [
        f"{name_of(path)}:{number}"
        for path in sorted(TEMPLATES.rglob("*.*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_LINE
    ]

    assert long == []


def test_included_templates_are_partials_that_exist() -> None:
    named = {name for path in FILES for name in INCLUDE.findall(path.read_text())} - {"base.html"}

    assert named <= {name_of(path) for path in FILES}
    assert [name for name in named if not Path(name).name.startswith("_")] == []


def test_shared_templates_are_partials() -> None:
    assert all(path.name.startswith("_") for path in FILES if path.parent.name == "components")


def test_folders_are_small() -> None:
    folders = {path.parent for path in FILES}

    assert [name_of(folder) for folder in folders if len(list(folder.glob("*.html"))) > 15] == []
