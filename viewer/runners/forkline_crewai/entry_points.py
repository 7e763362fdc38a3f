"""The crews, flows and agents that the project's entry points make, or its files declare.

CrewAI reads ``crew.jsonc`` and ``flow.yaml`` since 1.15. The Python that they name (``custom:`` tools,
callbacks, models) is the project's, and is imported like any entry point. Of a flow, the annotations in its
code give the types of what its methods return and read. Does not import the engine.
"""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forkline_runner import project
from forkline_runner.reporting import Refused

JSON_SUFFIXES = (".jsonc", ".json")
SUFFIXES = (*JSON_SUFFIXES, ".yaml", ".yml")
OTHER = {
    "crew": "crewai.entry_point_not_crew",
    "agent": "crewai.entry_point_not_agent",
    "flow": "crewai.entry_point_not_flow",
}


def made_by(entry_point: str, kind: type, name: str) -> Any:
    """Return the crew, flow or agent that an entry point is, returns, or has as its crew. Raises Refused.

    ``kind`` is its class, and ``name`` one of crew, flow and agent.
    """
    # A file's path, not ``module:name``.
    if entry_point.endswith(SUFFIXES):
        return _declared(entry_point, name)
    found = project.load(entry_point)
    try:
        if inspect.isclass(found) and not issubclass(found, kind):
            made = found()  # a @CrewBase class
            found = made.crew() if name == "crew" and hasattr(made, "crew") else made
        elif not isinstance(found, kind) and callable(found):
            found = found()
    except Exception as error:
        raise _failed(entry_point, error) from error
    if not isinstance(found, kind):
        raise Refused(OTHER[name], entry_point=entry_point, found=type(found).__name__)
    return found


def _declared(entry_point: str, kind: str) -> Any:
    """Return the crew or flow that the file declares. Raises Refused."""
    path = _path(entry_point)
    if kind == "agent":
        raise Refused("crewai.no_lone_agent_declared", entry_point=entry_point)
    try:
        return _crew(path) if kind == "crew" else _flow(path)
    except ImportError as error:
        if not _is_too_old(kind):
            raise _failed(entry_point, error) from error
        raise Refused(
            "crewai.declaration_needs_newer_version",
            version=importlib.metadata.version("crewai"),
            entry_point=entry_point,
        ) from error
    except Exception as error:
        raise _failed(entry_point, error) from error


def _path(entry_point: str) -> Path:
    """Return the file's path. Raises Refused if it is not in the project's folder."""
    folder = Path.cwd().resolve()
    path = (folder / entry_point).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise Refused("crewai.entry_point_file_missing", entry_point=entry_point)
    return path


def _crew(path: Path) -> Any:
    from crewai.project import load_crew

    crew, _inputs = load_crew(path)
    return crew


def _flow(path: Path) -> Any:
    from crewai.flow.flow import Flow

    if not hasattr(Flow, "from_declaration"):
        raise ImportError("Flow.from_declaration")
    return Flow.from_declaration(path=path)


def _is_too_old(kind: str) -> bool:
    """Return whether this version of the engine cannot read the file at all.

    Otherwise the import error comes from the project.
    """
    import crewai.project
    from crewai.flow.flow import Flow

    return not (hasattr(crewai.project, "load_crew") if kind == "crew" else hasattr(Flow, "from_declaration"))


def default_inputs(entry_point: str) -> dict[str, Any]:
    """Return the default inputs in a crew's file; none for an entry point in Python."""
    if not entry_point.endswith(JSON_SUFFIXES):
        return {}
    try:
        from crewai.project.json_loader import load_jsonc_file

        inputs = load_jsonc_file(_path(entry_point)).get("inputs")
    except Exception:
        # An old engine, or a broken file: loading the crew reports which.
        return {}
    return dict(inputs) if isinstance(inputs, dict) else {}


def _failed(entry_point: str, error: Exception) -> Refused:
    return Refused(
        "crewai.entry_point_failed",
        entry_point=entry_point,
        kind=type(error).__name__,
        error=error,
    )


# The types that a flow's methods return and read.


# Calls that return a dictionary.
MAKES_DICTIONARY = {"dict", "model_dump", "to_dict", "asdict", "loads", "copy", "fromkeys", "defaultdict"}


def type_of(flow: Any, method: str) -> Any:
    """Return the annotated return type of a method, else the type that its listeners read, else None."""
    if method not in {str(name) for name in flow._methods}:
        return None
    returned = _hints(flow, method).get("return")
    if returned not in (None, Any):
        return returned
    read = [_read_by(flow, listener) for listener in _listeners_of(flow, method)]
    # Only a class: any other annotation accepts the dictionary.
    return next((one for one in read if inspect.isclass(one) and one not in (Any, dict, object)), None)


def _read_by(flow: Any, listener: str) -> Any:
    """Return the annotation of the first parameter after ``self``."""
    hints = {name: hint for name, hint in _hints(flow, listener).items() if name not in {"self", "return"}}
    return next(iter(hints.values()), None)


def _hints(flow: Any, method: str) -> dict[str, Any]:
    function = _function_of(flow, method)
    try:
        return typing.get_type_hints(function) if function is not None else {}
    except Exception:
        # For example, a name that is imported only for type checkers.
        return {}


def may_be_object(flow: Any, method: str) -> bool:
    """Return whether a method may have returned an object where the checkpoint has a dictionary.

    Not if its source returns only dictionaries, or if its listeners read none of the result's attributes.
    """
    function = _function_of(flow, method)
    returned = [_makes(node, function) for node in _returned(function)]
    if returned and all(made == "dictionary" for made in returned):
        return False
    if "object" in returned:
        return True
    return any(_reads_attributes(_function_of(flow, name)) for name in _listeners_of(flow, method))


def _makes(node: ast.expr, function: Any, depth: int = 0) -> str:
    """Return ``dictionary``, ``object`` or an empty text for what an expression of a function makes."""
    if isinstance(node, ast.Dict | ast.DictComp | ast.Constant):
        return "dictionary"
    if isinstance(node, ast.IfExp):
        made = {_makes(part, function, depth + 1) for part in (node.body, node.orelse)}
        return made.pop() if len(made) == 1 else "object" if "object" in made else ""
    if isinstance(node, ast.Name) and depth < 5:
        made = {_makes(value, function, depth + 1) for value in _assigned(function, node.id)}
        return made.pop() if len(made) == 1 else "object" if "object" in made else ""
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in MAKES_DICTIONARY:
        return "dictionary"
    called = getattr(function, "__globals__", {}).get(name) if isinstance(node.func, ast.Name) else None
    if inspect.isclass(called):
        return "dictionary" if issubclass(called, dict) else "object"
    return ""


def _assigned(function: Any, name: str) -> Iterator[ast.expr]:
    """Yield the values that a function assigns to a local name."""
    for node in ast.walk(_tree_of(function)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            yield node.value  # type: ignore[attr-defined]


def _returned(function: Any) -> list[ast.expr]:
    """Return the values that a function returns, without those of functions inside it."""
    found, waiting = [], list(ast.iter_child_nodes(_tree_of(function)))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return found


def _reads_attributes(function: Any) -> bool:
    """Return whether a listener may read attributes of its parameter that a dictionary lacks."""
    tree = _tree_of(function)
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    parameters = {one.arg for one in tree.args.args[1:2]}
    reads = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return any(
        isinstance(node.value, ast.Name) and node.value.id in parameters and not hasattr(dict, node.attr)
        for node in reads
    )


def _tree_of(function: Any) -> ast.AST:
    """Return the syntax tree of a function; an empty module if its source is not known."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return ast.Module([], [])
    return tree


def _listeners_of(flow: Any, method: str) -> Iterator[str]:
    """Yield the methods that only this method triggers: they receive its result."""
    methods = {str(name) for name in flow._methods}
    definitions = getattr(_definition_of(flow), "methods", None) or {}
    older = getattr(flow, "_listeners", None) or {}
    for name in methods:
        condition = getattr(definitions.get(name), "listen", None) or older.get(name)
        if set(_texts(condition)) & methods == {method}:
            yield name


def _definition_of(flow: Any) -> Any:
    """Return the flow's own definition; in CrewAI 1.14.7, that of its class; in older versions, None."""
    of_class = getattr(type(flow), "flow_definition", None)
    return getattr(flow, "_definition", None) or (of_class() if of_class else None)


def _texts(condition: Any) -> Iterator[str]:
    """Yield every text in a condition: versions nest lists, tuples and dictionaries differently."""
    if isinstance(condition, str):
        yield str(condition)
    elif isinstance(condition, dict):
        for value in condition.values():
            yield from _texts(value)
    elif isinstance(condition, list | tuple | set | frozenset):
        for value in condition:
            yield from _texts(value)


def _function_of(flow: Any, method: str) -> Any:
    """Return the function of a method as the project wrote it; None if the class has no such method."""
    found = getattr(type(flow), method, None)
    return inspect.unwrap(getattr(found, "_meth", found)) if found is not None else None
