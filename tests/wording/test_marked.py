"""Every text that a pure room has for a person is marked, so that it can be collected for translation."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# What makes a text one for a person, wherever it is called.
MAKERS = {"Words", "StillWritten", "Broken", "Foreign", "LocationUnreadable"}
FILES = sorted((ROOT / "viewer/providers").rglob("*.py"))


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def is_marked(node: ast.expr) -> bool:
    """Whether it is ``_("a whole text")``, which collecting tools find."""
    return (
        isinstance(node, ast.Call)
        and name_of(node.func) == "_"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
    )


def texts_in(tree: ast.Module) -> Iterator[ast.expr]:
    """What stands where a text for a person belongs. A name stands for a text that was made before."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in MAKERS:
            yield from node.args[:1]


def sentences_in(tree: ast.Module) -> Iterator[ast.Constant]:
    """Whole sentences that no call has: those of tables, for one."""
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Call) for part in node.args}
    within |= {id(node.msg) for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg}
    within |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            text = node.value
            if text[:1].isupper() and " " in text and text.endswith("."):
                yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_text_for_a_person_is_marked(path: Path) -> None:
    tree = ast.parse(path.read_text())
    bare = [
        node for node in texts_in(tree) if not (is_marked(node) or isinstance(node, ast.Name | ast.Attribute))
    ]
    assert [f"{path.name}:{node.lineno}" for node in [*bare, *sentences_in(tree)]] == []


def test_the_texts_are_found() -> None:
    found = [node for path in FILES for node in texts_in(ast.parse(path.read_text())) if is_marked(node)]
    assert len(found) > 30
    bare = ast.parse('KINDS = ["It is a pipe."]\nraise Broken(f"It is {size} long.")')
    assert len(list(sentences_in(bare))) == 1 and not is_marked(next(texts_in(bare)))
