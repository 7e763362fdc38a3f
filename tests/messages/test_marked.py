"""Every text that a pure room has for a person is marked, so that it can be collected for translation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from viewer.messages.message import MOST_PLACES

ROOT = Path(__file__).resolve().parent.parent.parent
# What makes a text one for a person, wherever it is called.
MAKERS = {
    *("Words", "Incomplete", "Broken", "Foreign", "LocationUnreadable"),
    *("EditRefused", "BranchRefused", "NoLayout", "JobRefused"),
    *("Refused", "WrongAnswer", "words", "warn"),
}
PLACE = re.compile(r"%\((\w+)\)[dsr]")
PROVIDERS = sorted((ROOT / "viewer/stores").rglob("*.py"))
FILES = [
    path
    for room in ("stores", "importing", "lineage", "jobs", "engines", "launching", "runners", "messages")
    for path in sorted((ROOT / "viewer" / room).rglob("*.py"))
]


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_marked(node: ast.expr) -> bool:
    """Whether it is ``_("a whole text")``, which collecting tools find."""
    return (
        isinstance(node, ast.Call)
        and name_of(node.func) == "_"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
    )


def is_made_elsewhere(node: ast.expr) -> bool:
    """Whether it is a name, or what comes from outside: ``str(error)``."""
    return isinstance(node, ast.Name | ast.Attribute) or (
        isinstance(node, ast.Call) and name_of(node.func) == "str"
    )


def tables_in(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """The values of each table at the top of a file, by its name."""
    return {
        ast.unparse(target): node.value.values
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }


def texts_of(call: ast.Call, tree: ast.Module) -> list[ast.expr]:
    """The call's text; where it is looked up in a table of its file, every text of that."""
    text = call.args[0]
    return tables_in(tree).get(name_of(text.value), [text]) if isinstance(text, ast.Subscript) else [text]


def calls_in(tree: ast.Module) -> Iterator[ast.Call]:
    """What makes a text for a person; the text is its first argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in MAKERS and node.args:
            yield node


def given_to(call: ast.Call) -> set[str]:
    """The names of the values that fill the text."""
    named = {keyword.arg for keyword in call.keywords}
    for argument in call.args[1:]:
        if isinstance(argument, ast.Dict):
            named |= {str(ast.literal_eval(key)) for key in argument.keys if key}
    return {str(name) for name in named}


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_text_for_a_person_is_marked(path: Path) -> None:
    tree = ast.parse(path.read_text())
    texts = [text for call in calls_in(tree) for text in texts_of(call, tree)]
    bare = [text.lineno for text in texts if not (is_marked(text) or is_made_elsewhere(text))]
    assert [f"{path.name}:{line}" for line in bare] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_text_is_given_the_values_that_it_names_and_no_others(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for call in calls_in(tree):
        for node in filter(is_marked, texts_of(call, tree)):
            text = ast.literal_eval(node.args[0])  # type: ignore[attr-defined]
            assert given_to(call) == set(PLACE.findall(text)), f"{path.name}:{call.lineno}"
            assert text.count("%") <= MOST_PLACES, f"{path.name}:{call.lineno}"
            assert "%" not in PLACE.sub("", text), f"{path.name}:{call.lineno}"


@pytest.mark.parametrize("path", PROVIDERS, ids=lambda path: path.stem)
def test_a_reason_in_a_table_is_marked(path: Path) -> None:
    assert [f"{path.name}:{node.lineno}" for node in sentences_in(ast.parse(path.read_text()))] == []


def test_the_texts_are_found() -> None:
    calls = [call for path in FILES for call in calls_in(ast.parse(path.read_text()))]
    assert sum(is_marked(call.args[0]) for call in calls) > 100
    bare = ast.parse('KINDS = ["It is a pipe."]\nraise Broken(f"It is {size} long.")')
    assert len(list(sentences_in(bare))) == 1 and not is_marked(next(calls_in(bare)).args[0])
    table = ast.parse(
        'KINDS = {"pipe": _("%(name)s is a pipe."), "file": "It is a file."}\nwarn(KINDS[kind])'
    )
    assert [is_marked(text) for text in texts_of(next(calls_in(table)), table)] == [True, False]
