"""The README and the guide name pages, commands, options and files that exist."""

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import load_command_class

from checkpoint_site.command import COMMANDS, SERVER
from viewer.cli import SUBCOMMANDS

ROOT = Path(__file__).resolve().parents[2]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDE, *sorted((ROOT / "docs").glob("*.md"))]
BOLD = re.compile(r"\*\*([^*]+)\*\*")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
MAX_README_LINES = 120
PARSERS = {
    name: load_command_class("viewer", command).create_parser("forkline", name)
    for name, command in COMMANDS.items()
}


def shown_texts() -> str:
    """Return all texts of the pages, without line breaks."""
    files = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "viewer").rglob("*.py")]
    return " ".join(" ".join(path.read_text() for path in files).split())


def commands_in(text: str) -> Iterator[list[str]]:
    """Return the words of each ``forkline`` command in the shell blocks."""
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words[:1] == ["forkline"]:
                yield words[3:] if words[1:2] == [SERVER] else words[1:]


def parser_of(name: str) -> ArgumentParser:
    """Return the parser of this command. Raise KeyError for an unknown one."""
    if name in PARSERS:
        return PARSERS[name]
    parser = ArgumentParser()
    parser.add_argument("--json", action="store_true")
    SUBCOMMANDS[name].add_arguments(parser)  # type: ignore[arg-type]
    return parser


def headings(path: Path) -> list[str]:
    """Return the anchors of a page, as Markdown renderers create them."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_the_guide_has_one_page_per_task() -> None:
    names = ["answer", "audit", "browse", "bulk", "calls", "code", "collect", "compare", "deploy", "effects"]
    names += ["fork", "http", "isolation", "keys", "operate", "search", "share", "stores", "sweep", "team"]
    assert [path.stem for path in GUIDE] == names


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("path", GUIDE, ids=lambda path: path.stem)
def test_bold_terms_appear_on_the_pages(path: Path) -> None:
    shown = shown_texts()
    words = [" ".join(found.split()) for found in BOLD.findall(path.read_text())]
    own = {"1. What would it do?", "2. What can be restored?"}

    assert [word for word in words if word not in own and word not in shown] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_have_targets(path: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(path.read_text()):
        if "://" in target:
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and anchor not in headings(file)):
            broken.append(f"{target}#{anchor}")

    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_and_options_exist(path: Path) -> None:
    for name, *arguments in filter(None, commands_in(path.read_text())):
        parser = parser_of(name)
        known = {option for action in parser._actions for option in action.option_strings}
        named = {word.strip("[]") for word in arguments if word.strip("[]").startswith("--")}

        assert named <= known, f"forkline {name}: {named - known}"


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    top_level = {
        path.stem
        for path in (ROOT / "viewer").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    top_level -= {"__init__", "migrations"}
    assert sorted(name for name in top_level if f"`{name}`" not in text) == []
