"""Reads the source of a project's modules. Nothing is imported."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def files_of(folder: Path, module: str, *others: Path) -> Iterator[Path]:
    """Where a module of the project may be. What is not a module's name could lead out of the folder."""
    parts = module.split(".")
    if all(part.isidentifier() for part in parts):
        for root in (folder, folder / "src", *others):
            yield root.joinpath(*parts).with_suffix(".py")
            yield root.joinpath(*parts, "__init__.py")


def parsed(content: str | bytes) -> ast.Module | None:
    """The tree of a module; None if it is not valid Python, or too large to be parsed."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def last_name(node: ast.AST | None, aliases: Mapping[str, str] = NO_ALIASES) -> str:
    """The last part of the name of an expression, or of what it calls or subscripts; empty without a name.

    ``aliases`` has the original names of what the module imports under others.
    """
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def aliases_in(tree: ast.Module) -> dict[str, str]:
    """The original names of what a module imports under others."""
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}


def texts_in(node: ast.AST) -> Iterator[str]:
    """Every text in a part of a module."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def assigned_texts(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The texts that statements assign, by the names of their variables."""
    return {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
