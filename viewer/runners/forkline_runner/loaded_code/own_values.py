"""The values that source code gives to a class: its defaults, and the arguments of the project's calls.

Reads the source; imports nothing. What cannot be read counts as not given.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forkline_runner.loaded_code import resolving
from forkline_runner.loaded_code.effects import values_in

# A value at its path, as JSON: in Python, true equals 1.
Held = set[tuple[str, str]]


def differing(module: str, name: str, fields: Mapping[str, Any], imported: set[str]) -> list[tuple[str, Any]]:
    """Return the values in an object's fields that the code does not give to its class, with their paths.

    A value is given if it is a default in the class's own module, or if the project calls the class with it.
    Only one call counts: values of several calls next to each other are not what the code does. ``imported``
    are the modules that the project's entry points import.
    """
    values = list(values_in(dict(fields)))
    defaults = _defaults(module, name)
    open_values = [one for one in values if _held(*one) not in defaults]
    best: Held = set()
    for given in _calls(module, name, imported) if open_values else ():
        held = {_held(*one) for one in open_values} & given
        best = max(best, held, key=len)
    return [one for one in open_values if _held(*one) not in best]


def _held(path: str, value: Any) -> tuple[str, str]:
    return path, json.dumps(value)


def _defaults(module: str, name: str) -> Held:
    """Return the defaults of the fields of a class, and of its bases in the same module."""
    found: dict[str, Any] = {}
    waiting, seen = [name], set()
    while waiting:
        current = waiting.pop(0)
        node = resolving.class_in_source(module, current)
        if node is None or current in seen:
            continue
        seen.add(current)
        waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
                found.setdefault(line.target.id, _literal(line.value, {}))
    return {_held(*one) for one in values_in(found)}


def _calls(module: str, name: str, imported: set[str]) -> Iterator[Held]:
    """Yield the arguments of each call of a class in the project's own modules."""
    for own in sorted(imported):
        files = resolving.files_if_found(own)
        if not files or files[-1].name != own or not resolving.is_below(Path(files[-1].path), Path.cwd()):
            continue
        tree = resolving.parsed(files[-1])
        if own != module and not _imports(tree, files[-1], module, name):
            continue
        constants = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                given = {one.arg: _literal(one.value, constants) for one in node.keywords if one.arg}
                yield {_held(*one) for one in values_in(given)}


def _imports(tree: ast.Module, file: resolving.ModuleFile, module: str, name: str) -> bool:
    """Return whether a module imports this class under its own name, from its module or a package above."""
    return any(
        alias.name == name and alias.asname in (None, name) and f"{module}.".startswith(f"{base}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (base := resolving.imported_from(node, file))
        for alias in node.names
    )


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the constants that a module assigns exactly once."""
    names = [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and names.count(target.id) == 1:
            found[target.id] = _literal(node.value, {})
    return found


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of an expression as JSON; None for what is not a literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bool | int | float) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item, constants) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            key.value: _literal(value, constants)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call):
        return _literal_call(node, constants)
    return _literal(node.body, constants) if isinstance(node, ast.Lambda) else None


def _literal_call(node: ast.Call, constants: Mapping[str, Any]) -> Any:
    """Return the arguments of a call by name, which are the fields of a model; of ``Field``, its default."""
    given = {one.arg: _literal(one.value, constants) for one in node.keywords if one.arg}
    if not isinstance(node.func, ast.Name) or node.func.id != "Field":
        return given
    first = _literal(node.args[0], constants) if node.args else None
    return given.get("default", given.get("default_factory", first))
