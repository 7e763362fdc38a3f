"""Each code that is used is in the catalogue with the values of its text, and no code is unused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from viewer.messages import catalog, runner_catalog
from viewer.messages.catalog import CATALOG
from viewer.messages.message import MAX_PLACEHOLDERS, PLAIN_TEXT, UNKNOWN_CODE
from viewer.models import Notification

VIEWER = Path(__file__).resolve().parent.parent.parent / "viewer"
CATALOGUES = [Path(str(module.__file__)) for module in (catalog, runner_catalog)]
FILES = [
    path
    for path in sorted(VIEWER.rglob("*.py"))
    if VIEWER / "migrations" not in path.parents and path not in CATALOGUES
]
PREFIXES = {code.partition(".")[0] for code in CATALOG} - {UNKNOWN_CODE}
# Names of files and modules such as langgraph.json and langgraph.graph are not codes.
CODE = re.compile(rf"(?:{'|'.join(sorted(PREFIXES))})\.(?!(?:json|types|graph)$)[a-z_]{{3,}}\d?")
PLACEHOLDER = re.compile(r"%\((\w+)\)[dsr]")


def codes_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each string written as a code, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value, node.lineno


def calls_in(tree: ast.AST) -> Iterator[tuple[ast.Call, list[str]]]:
    """Yield each call whose first argument is a code or a table of codes of this file, with its codes."""
    tables = {
        ast.unparse(target): [code for code, _line in codes_in(statement.value)]
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        first = node.args[0]
        codes = [code for code, _line in codes_in(first)] if isinstance(first, ast.Constant) else []
        if isinstance(first, ast.Subscript):
            codes = tables.get(ast.unparse(first.value), [])
        if codes:
            yield node, codes


def values_of(call: ast.Call) -> set[str] | None:
    """Return the names of the values of a call, or None if they are not literal."""
    names = {keyword.arg for keyword in call.keywords}
    for argument in call.args[1:]:
        if not (
            isinstance(argument, ast.Dict) and all(isinstance(key, ast.Constant) for key in argument.keys)
        ):
            return None
        names |= {str(ast.literal_eval(key)) for key in argument.keys if key}
    return None if None in names else {str(name) for name in names}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file of the application, by its path."""
    return {str(path.relative_to(VIEWER)): ast.parse(path.read_text()) for path in FILES}


def test_each_code_is_in_the_catalogue(trees: dict[str, ast.Module]) -> None:
    unknown = [
        f"{path}:{line} {code}"
        for path, tree in trees.items()
        for code, line in codes_in(tree)
        if code not in CATALOG and code not in Notification.Event
    ]
    assert unknown == []


def test_each_text_receives_the_values_that_it_names(trees: dict[str, ast.Module]) -> None:
    wrong = [
        f"{path}:{call.lineno} {code} receives {sorted(given)}"
        for path, tree in trees.items()
        for call, codes in calls_in(tree)
        if (given := values_of(call)) is not None
        for code in codes
        if code in CATALOG and given != set(PLACEHOLDER.findall(CATALOG[code]))
    ]
    assert wrong == []


def test_each_text_of_the_catalogue_is_used(trees: dict[str, ast.Module]) -> None:
    used = {code for tree in trees.values() for code, _line in codes_in(tree)}
    assert CATALOG.keys() - used == {UNKNOWN_CODE}


def test_texts_have_few_placeholders_and_no_other_format_characters() -> None:
    wrong = {
        code: text
        for code, text in CATALOG.items()
        if text.count("%") > MAX_PLACEHOLDERS or "%" in PLACEHOLDER.sub("", text)
    }
    assert wrong == {} and PLAIN_TEXT not in CATALOG


def test_each_code_has_one_text() -> None:
    codes = [
        ast.literal_eval(key)
        for path in CATALOGUES
        for table in dicts_of(path)
        for key in table.keys
        if isinstance(key, ast.Constant)
    ]
    assert len(codes) == len(set(codes)) == len(CATALOG)


def test_each_text_is_marked_for_makemessages() -> None:
    for path in CATALOGUES:
        for table in dicts_of(path):
            bare = [value for key, value in zip(table.keys, table.values, strict=True) if key]
            assert all(isinstance(value, ast.Call) for value in bare), path.name


def dicts_of(path: Path) -> list[ast.Dict]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict)]


def test_calls_with_codes_are_found(trees: dict[str, ast.Module]) -> None:
    calls = [call for tree in trees.values() for call in calls_in(tree)]
    assert len(calls) > 150
    assert sum(values_of(call) is not None for call, _codes in calls) > 140
