"""docs/architecture.md names what is there: packages, files, and the code behind buttons."""

import re
from pathlib import Path
from pydoc import locate

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/architecture.md").read_text()


def table(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading, without its own heading."""
    section = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `|") for cell in row] for row in rows[1:]]


BUTTONS = table("From a button to its code")


@pytest.mark.parametrize("row", BUTTONS, ids=[row[0] for row in BUTTONS])
def test_a_button_leads_to_its_code(row: list[str]) -> None:
    text, template, view, work = row
    assert text in (ROOT / "templates" / template).read_text()
    assert callable(locate(f"viewer.web.views.{view}")) and callable(locate(f"viewer.{work}"))


def test_the_table_of_packages_is_complete() -> None:
    named = {name for row in table("Packages") for name in re.findall(r"\w+", row[0].replace("`", ""))}
    folders = {path.parent.name for path in (ROOT / "viewer").glob("*/__init__.py")} - {"migrations"}
    modules = {path.stem for path in (ROOT / "viewer").glob("[!_]*.py")}
    assert named == folders | modules | {"management", "runners"}


def test_named_files_exist() -> None:
    paths = re.findall(r"`((?:viewer|templates|static|tests|scripts|quality|demo)/[\w/.]+?)/?`", TEXT)
    assert len(paths) > 20 and [path for path in paths if not (ROOT / path).exists()] == []


def test_named_modules_exist() -> None:
    packages = "|".join(path.parent.name for path in (ROOT / "viewer").glob("*/__init__.py"))
    names = set(re.findall(rf"`(?:viewer\.)?((?:{packages})(?:\.\w+)+)`", TEXT))
    missing = {name for name in names if locate(f"viewer.{name}") is None}
    assert (
        len(names) > 10 and {name for name in missing if locate(f"viewer.web.views.{name}") is None} == set()
    )


def test_each_term_and_each_meaning_of_the_glossary_is_there_once() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    terms, meanings = zip(*(line.strip("| ").split(" | ") for line in lines if line[:2] == "| "), strict=True)
    assert len(terms) > 100 and list(terms[1:]) == sorted(set(terms[1:]), key=str.lower)
    assert len(set(meanings)) == len(meanings)
