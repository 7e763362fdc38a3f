"""A name at the top of a module means one thing."""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    path
    for folder in ("viewer", "checkpoint_site", "scripts", "quality")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "migrations" not in path.parts
]


def names_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in found if isinstance(one.ctx, context)}


def given_twice(text: str) -> list[str]:
    """Return the constants of a module that get a second value, which is not made of the first."""
    assignments = [one for one in ast.parse(text).body if isinstance(one, ast.Assign | ast.AnnAssign)]
    times = Counter(
        name
        for one in assignments
        for name in names_in(one, ast.Store) - names_in(one, ast.Load)
        if name.isupper()
    )
    return [name for name, count in times.items() if count > 1]


def test_no_constant_has_two_values() -> None:
    assert len(MODULES) > 500
    twice = {str(path.relative_to(ROOT)): given_twice(path.read_text()) for path in MODULES}
    assert {path: names for path, names in twice.items() if names} == {}


@pytest.mark.parametrize("text", ["A = 1\nA = 2", "A, B = 1, 2\nC, A = 3, 4", "A = 1\nA: int = 2"])
def test_a_second_value_is_noticed(text: str) -> None:
    assert given_twice(text) == ["A"]
    assert given_twice("A = ''\nA = A or 'x'\nA.b = 1") == []
