"""Measures redaction: the share of ordinary paragraphs that it changes, and its time for hostile texts."""

import ast
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from quality.tables import print_heading, print_row
from viewer.redaction.values import redact, redacted_json, scan

ROOT = Path(__file__).resolve().parents[2]
# Environments whose packages' descriptions and docstrings are read. Those of the demo have engines.
ENVIRONMENTS = (".venv", "demo/.venv", "demo/support/.venv")
# One of so many modules is read.
EACH = 12
MIN_PARAGRAPH = 40
GOAL_PERCENT = 0.2
GOAL_SECONDS = 2.0
MEGABYTE = 1024 * 1024
# Texts made to take long: a piece, and the bytes of its repetitions.
HOSTILE = {
    "heads of PEM blocks": ("-----BEGIN RSA PRIVATE KEY-----\n", 8 * MEGABYTE),
    "heads of PEM blocks in one line": ("-----BEGIN PRIVATE KEY-----", 8 * MEGABYTE),
    "heads of PEM blocks apart": ("-----BEGIN PRIVATE KEY-----!", 4 * MEGABYTE),
    "beginnings of tokens": ("sk-", 8 * MEGABYTE),
    "wrapped words": ("key=" + "abcdefgh1" * 6 + "\n", 2 * MEGABYTE),
    "cookies": ("cookie: ", MEGABYTE),
    "addresses of webhooks": ("webhook_url=https://a/", MEGABYTE),
    "percent signs": ("api_key%3D", MEGABYTE),
    "characters without a width": ("\u200b", MEGABYTE),
    "wide letters": ("\N{FULLWIDTH LATIN SMALL LETTER P}", MEGABYTE),
}
FIELDS = 50_000


def main() -> int:
    """Print both tables. Return 1 if a goal is missed."""
    paragraphs = list(dict.fromkeys(ordinary_paragraphs()))
    changed = [paragraph for paragraph in paragraphs if redact(paragraph) != paragraph]
    share = 100 * len(changed) / len(paragraphs)
    print_heading("ordinary texts", "paragraphs", "changed", "share", f"goal: < {GOAL_PERCENT} %")
    verdict = "ok" if share < GOAL_PERCENT else "no"
    print_row("descriptions and docstrings", f"{len(paragraphs):,}", len(changed), f"{share:.2f} %", verdict)
    print()
    print_heading("hostile texts", "seconds", f"goal: < {GOAL_SECONDS:.0f} s")
    slowest = 0.0
    for name, work in hostile_texts().items():
        began = time.process_time()
        work()
        seconds = time.process_time() - began
        slowest = max(slowest, seconds)
        print_row(name, f"{seconds:.2f}", "ok" if seconds < GOAL_SECONDS else "no")
    return int(share >= GOAL_PERCENT or slowest >= GOAL_SECONDS)


def hostile_texts() -> dict[str, Callable[[], Any]]:
    """Return calls that redact texts and documents made to take long."""
    fields = {f"password_{number}": f"value-{number}-x7" for number in range(FIELDS)}
    document = json.dumps(fields).encode()
    calls: dict[str, Callable[[], Any]] = {
        f"{name}, {size // MEGABYTE} MB": partial(redact, {"text": piece * (size // len(piece.encode()))})
        for name, (piece, size) in HOSTILE.items()
    }
    calls[f"{FIELDS:,} password fields"] = partial(redact, fields)
    calls[f"{FIELDS:,} password fields as bytes"] = lambda: redacted_json(document, scan(document))
    return calls


def ordinary_paragraphs() -> Iterator[str]:
    """Yield the paragraphs of the descriptions and docstrings of installed packages."""
    for environment in ENVIRONMENTS:
        for packages in sorted((ROOT / environment).glob("lib/python*/site-packages")):
            for file in sorted(packages.glob("*.dist-info/METADATA")):
                yield from paragraphs_of(file.read_text(errors="replace").partition("\n\n")[2])
            for file in sorted(packages.rglob("*.py"))[::EACH]:
                for text in docstrings_of(file):
                    yield from paragraphs_of(text)


def paragraphs_of(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        if len(paragraph.strip()) >= MIN_PARAGRAPH:
            yield paragraph.strip()


def docstrings_of(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_text(errors="replace"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


if __name__ == "__main__":
    sys.exit(main())
