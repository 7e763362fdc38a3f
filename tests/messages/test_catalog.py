"""Each code that is used is in the catalogue with the values of its text, and no code is unused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from viewer.messages import catalog
from viewer.messages.catalog import CATALOG
from viewer.messages.message import MAX_PLACEHOLDERS, PLAIN_TEXT, UNKNOWN_CODE

VIEWER = Path(__file__).resolve().parent.parent.parent / "viewer"
FILES = [
    path
    for path in sorted(VIEWER.rglob("*.py"))
    if "migrations" not in path.parts and "catalog" not in path.parts
]
PREFIXES = {code.partition(".")[0] for code in CATALOG} - {UNKNOWN_CODE}
# File names such as langgraph.json are not codes.
CODE = re.compile(rf"(?:{'|'.join(sorted(PREFIXES))})\.(?!json$)[a-z_]{{3,}}")
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(VIEWER)))
def test_each_code_is_in_the_catalogue(path: Path) -> None:
    assert [found for found in codes_in(ast.parse(path.read_text())) if found[0] not in CATALOG] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(VIEWER)))
def test_each_text_receives_the_values_that_it_names(path: Path) -> None:
    for call, codes in calls_in(ast.parse(path.read_text())):
        given = values_of(call)
        for code in codes:
            if given is not None and code in CATALOG:
                assert given == set(PLACEHOLDER.findall(CATALOG[code])), f"{code} in line {call.lineno}"


def test_each_text_of_the_catalogue_is_used() -> None:
    used = {code for path in FILES for code, _line in codes_in(ast.parse(path.read_text()))}
    assert CATALOG.keys() - used == {UNKNOWN_CODE}


@pytest.mark.parametrize("code", CATALOG)
def test_texts_have_few_placeholders_and_no_other_format_characters(code: str) -> None:
    text = CATALOG[code]
    assert text.count("%") <= MAX_PLACEHOLDERS and "%" not in PLACEHOLDER.sub("", text)
    assert code != PLAIN_TEXT


def test_each_module_is_in_the_catalogue_and_each_code_in_one_module() -> None:
    subjects = [module for module in vars(catalog).values() if hasattr(module, "MESSAGES")]
    files = sorted(Path(catalog.__file__).parent.glob("*.py"))
    assert len(subjects) == len(files) - 1
    assert sum(len(module.MESSAGES) for module in subjects) == len(CATALOG) - 1


def test_each_text_is_marked_for_makemessages() -> None:
    for path in sorted(Path(catalog.__file__).parent.glob("*.py")):
        tables = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict)]
        for table in tables:
            bare = [value for key, value in zip(table.keys, table.values, strict=True) if key]
            assert all(isinstance(value, ast.Call) for value in bare), path.name


def test_calls_with_codes_are_found() -> None:
    calls = [call for path in FILES for call in calls_in(ast.parse(path.read_text()))]
    assert len(calls) > 150
    assert sum(values_of(call) is not None for call, _codes in calls) > 140
