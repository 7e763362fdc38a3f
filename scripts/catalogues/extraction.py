"""Finds the texts that are marked for translation in Python modules and templates."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
# The folders whose texts people see in the browser or the terminal.
SOURCES = {"checkpoint_site": "*.py", "viewer": "*.py", "templates": "*.html"}
KEYWORDS = {
    name: arguments
    for suffix in ("", "_lazy", "_noop")
    for name, arguments in {
        f"gettext{suffix}": None,
        f"ngettext{suffix}": (1, 2),
        f"pgettext{suffix}": ((1, "c"), 2),
        f"npgettext{suffix}": ((1, "c"), 2, 3),
    }.items()
} | {"_": None}


def extracted(root: Path = ROOT) -> Catalog:
    """Return a catalogue of all marked texts, without translations. Its locations name files, not lines."""
    catalog = Catalog()
    for path in _files(root):
        for _line, text, comments, context in _texts_in(path):
            name = str(path.relative_to(root))
            catalog.add(text, locations=[(name, 0)], auto_comments=comments, context=context)
    return catalog


def _files(root: Path) -> Iterator[Path]:
    for folder, pattern in SOURCES.items():
        for path in sorted((root / folder).rglob(pattern)):
            if "migrations" not in path.relative_to(root).parts:
                yield path


def _texts_in(path: Path) -> Iterator[tuple[int, str | tuple[str, ...], list[str], str | None]]:
    source = path.read_text()
    if path.suffix == ".html":
        # Django turns tags into calls of gettext, at the places where they are: no indented Python.
        source = "\n".join(line.lstrip() for line in templatize(source).splitlines())
    content = BytesIO(source.encode())
    yield from extract("python", content, KEYWORDS, ["Translators:"], {"encoding": "utf-8"})
