"""docs/architecture.md names what is there: packages, files, and the code behind buttons."""

import ast
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


def stories() -> list[tuple[str, list[list[str]]]]:
    """Return the stories of the way of the data: their headings, and the files of each process."""
    section = TEXT.split("\n## The way of the data\n", 1)[1].split("\n## ", 1)[0]
    bodies = [one.split("\n", 1) for one in section.split("\n### ")[1:]]
    return [
        (title, [re.findall(r"`([\w/]+\.py)`", part) for part in body.split("\n\n")])
        for title, body in bodies
    ]


def imported_by(path: Path) -> set[str]:
    """Return the names of the modules that a file imports, and of what it imports from them."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return names


@pytest.mark.parametrize("story", stories(), ids=[title for title, _parts in stories()])
def test_the_way_of_the_data_leads_from_file_to_file(story: tuple[str, list[list[str]]]) -> None:
    title, parts = story
    files = [file for part in parts for file in part]
    assert len(files) == len(set(files)) == int(re.findall(r"(\d+) files", title)[0])
    known = set[str]()
    for part in filter(None, parts):
        for position, file in enumerate(part):
            module = file.removeprefix("runners/").removesuffix(".py").replace("/", ".")
            names = {module, f"viewer.{module}", *(["viewer.models"] if file.startswith("models/") else [])}
            is_found_by_name = file.startswith(("engines/crewai", "engines/langgraph", "stores/"))
            is_found_by_name = is_found_by_name or position == 0 or file.endswith("/job.py")
            assert is_found_by_name or names & known, f"nothing before {file} imports it"
            known |= imported_by(ROOT / "viewer" / file)


def test_each_term_and_each_meaning_of_the_glossary_is_there_once() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    terms, meanings = zip(*(line.strip("| ").split(" | ") for line in lines if line[:2] == "| "), strict=True)
    assert len(terms) > 100 and list(terms[1:]) == sorted(set(terms[1:]), key=str.lower)
    assert len(set(meanings)) == len(meanings)
