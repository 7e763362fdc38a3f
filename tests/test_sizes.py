"""Functions, files and folders are short enough to be read at once."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("checkpoint_site", "viewer", "static", "scripts", "quality", "demo", "tests")
LEFT_OUT = {"__pycache__", "node_modules", "migrations", "recorded_stores", ".venv", "var"}
FILES = sorted(
    path
    for folder in FOLDERS
    for pattern in ("*.py", "*.js", "*.css")
    for path in (ROOT / folder).rglob(pattern)
    if not LEFT_OUT & set(path.relative_to(ROOT).parts)
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_functions_have_at_most_40_lines() -> None:
    functions = {
        f"{name_of(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in FILES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(functions) > 5_000 and {name for name, lines in functions.items() if lines > 40} == set()


def test_files_have_at_most_300_lines() -> None:
    lines = {name_of(path): path.read_bytes().count(b"\n") for path in FILES}
    assert {name for name, count in lines.items() if count > 300} == set()


def test_folders_have_at_most_15_files() -> None:
    files = Counter(name_of(path.parent) for path in FILES)
    assert {folder for folder, count in files.items() if count > 15} == set()
