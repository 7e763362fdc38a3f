"""Finds the graphs of a project and their inputs by reading its files. Nothing is imported."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viewer.engines.entry_points import (
    ANNOTATIONS,
    EntryPoint,
    EntryPointLabels,
    InputName,
    files_of_module,
    last_name,
    parsed_module,
)
from viewer.engines.langgraph.threads.rows import KIND
from viewer.messages.catalog import gettext_noop as _
from viewer.validation import content_at

# Reads a project's ``langgraph.json`` as text. Nothing is imported or loaded.


CONFIGURATION = "langgraph.json"
MAX_BYTES = 512 * 1024
MAX_FOLDERS = 50


def read_text(path: Path) -> str:
    """The text of a file of the project; empty if the file is missing, unreadable or too long."""
    return (content_at(path, MAX_BYTES, follows_links=True) or b"").decode(errors="replace")


def configuration(folder: Path) -> dict[str, Any]:
    """The object in the project's configuration file; empty if the file is missing or invalid."""
    try:
        found = json.loads(read_text(folder / CONFIGURATION))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def environment_file(folder: Path) -> Path | None:
    """The file with the environment variables; None if the configuration names none.

    This is the configuration file if it contains the variables itself.
    """
    named = configuration(folder).get("env")
    if isinstance(named, dict) and named:
        return folder / CONFIGURATION
    if isinstance(named, str) and named and "\0" not in named:
        return folder / named
    return None


def source_folders(folder: Path) -> tuple[Path, ...]:
    """The folders among the dependencies. The import path has them after the project's own folders.

    Other dependencies are packages, which are installed in the project's environment.
    """
    named = configuration(folder).get("dependencies")
    texts = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    found: dict[Path, None] = {}
    for text in texts[:MAX_FOLDERS]:
        path = Path(folder, text) if text and "\0" not in text else folder
        for one in (path, path / "src"):
            if _is_folder(one) and one.resolve() not in (folder.resolve(), (folder / "src").resolve()):
                found[one.resolve()] = None
    return tuple(found)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


# Finds the graphs that a project's ``langgraph.json`` names. Nothing is imported.


MAX_GRAPHS = 50
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
LABELS = EntryPointLabels(
    hint=_("A graph continues in its own code. Choose what langgraph.json names."),
    form=_("package.module:name"),
    example="support.graph:graph",
)


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """The graphs in the project's ``langgraph.json``; empty without that file."""
    found = dict.fromkeys(named_entry_points(folder).values())
    return tuple(EntryPoint(entry_point, KIND) for entry_point in found)


def named_entry_points(folder: Path) -> dict[str, str]:
    """The entry points of the graphs in the project's ``langgraph.json``, by the graphs' names."""
    graphs = configuration(folder).get("graphs")
    if not isinstance(graphs, dict):
        return {}
    found = {}
    for name, value in list(graphs.items())[:MAX_GRAPHS]:
        path = value.get("path") if isinstance(value, dict) else value
        if isinstance(path, str) and (entry_point := _importable(path)):
            found[name] = entry_point
    return found


def saver_of(folder: Path, named: str) -> str:
    """The checkpoint saver with this name, else the one in ``langgraph.json``; empty if there is none."""
    value = configuration(folder).get("checkpointer")
    path = value.get("path") if isinstance(value, dict) else value
    text = named or (path if isinstance(path, str) else "")
    return _importable(text)


def _importable(named: str) -> str:
    """``module:graph`` for ``./src/module.py:graph``; empty if that is not an importable name."""
    module, _colon, graph = named.strip().rpartition(":")
    if module.endswith(".py"):
        parts = Path(module.removesuffix(".py")).parts
        module = ".".join(parts[1:] if parts[:1] == ("src",) else parts)
    name = f"{module}:{graph}"
    return name if is_entry_point(name) else ""


def entry_point_for(folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
    """The project's only entry point; empty if it has several, since a thread does not record its graph."""
    return entry_points[0] if len(entry_points) == 1 else ""


def entry_point_kinds(folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
    """The root kind of each entry point."""
    return dict.fromkeys(entry_points, KIND)


def title_of(entry_point: str) -> str:
    """A short name of an entry point."""
    return entry_point.rpartition(":")[2]


def is_entry_point(text: str) -> bool:
    """Whether a text can name an entry point."""
    return ENTRY_POINT.fullmatch(text) is not None


# Finds the fields of a graph's input by reading its source. Nothing is imported.


# The engine's own states, whose fields are messages.
MESSAGE_STATES = {"MessagesState", "AgentState"}
# The functions that make an agent, whose state has messages although no class is named.
AGENTS = {"create_agent", "create_react_agent", "create_supervisor", "create_swarm"}
# The field of an input that is not an object (viewer/runners/forkline_langgraph/running.py).
INPUT = "input"


def input_names(folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
    """The fields of the entry point's input; empty if they are not clear.

    For a graph, these are the fields of the state in its module. For a function of the functional API, these
    are the fields of its parameter, or the parameter itself.
    """
    module, _colon, name = entry_point.partition(":")
    tree = _tree(folder, module)
    trees = {module: tree}
    if tree is None:
        return ()
    if (function := _functional(tree, name)) is not None:
        return _of_parameter(folder, trees, module, function)
    for state in _states_in(tree):
        fields = _fields_of(folder, trees, module, state)
        if fields:
            return tuple(InputName(field, ANNOTATIONS.get(annotation)) for field, annotation in fields)
    return (InputName("messages", list),) if _makes_agent(tree) else ()


def _functional(tree: ast.Module, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of this name that ``@entrypoint`` decorates."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != name:
            continue
        if any(last_name(one) == "entrypoint" for one in node.decorator_list):
            return node
    return None


def _of_parameter(
    folder: Path,
    trees: dict[str, ast.Module | None],
    module: str,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> tuple[InputName, ...]:
    """The fields of a function's first parameter; the parameter itself if its type has none."""
    annotation = next((one.annotation for one in function.args.args), None)
    if isinstance(annotation, ast.Name) and (fields := _fields_of(folder, trees, module, annotation.id)):
        return tuple(InputName(field, ANNOTATIONS.get(found)) for field, found in fields)
    return (InputName(INPUT, ANNOTATIONS.get(_type_name(annotation)) if annotation else None),)


def _makes_agent(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node) in AGENTS for node in ast.walk(tree))


def _states_in(tree: ast.Module) -> Iterator[str]:
    """The names of the classes that the module passes to its graphs as input or state."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = last_name(node)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        state = given.get("input_schema") or given.get("input") or given.get("state_schema")
        if called == "StateGraph" and state is None and node.args:
            state = node.args[0]
        if isinstance(state, ast.Name) and (called == "StateGraph" or "state_schema" in given):
            yield state.id


def _fields_of(
    folder: Path, trees: dict[str, ast.Module | None], module: str, name: str, depth: int = 0
) -> list[tuple[str, str]]:
    """The annotated fields of a class with the names of their types. Fields of base classes come first."""
    if name in MESSAGE_STATES:
        return [("messages", "list")]
    if module not in trees:
        trees[module] = _tree(folder, module)
    tree = trees[module]
    if tree is None or depth > 4:
        return []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            fields: list[tuple[str, str]] = []
            for base in node.bases:
                if isinstance(base, ast.Name):
                    fields += _fields_of(folder, trees, module, base.id, depth + 1)
            return [*fields, *_annotated(node)]
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            original = next(one.name for one in node.names if (one.asname or one.name) == name)
            package = _package_of(folder, module)
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join(part for part in (*above, node.module or "") if part)
            return _fields_of(folder, trees, module, original, depth + 1)
    return []


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, _type_name(statement.annotation)


def _type_name(annotation: ast.expr) -> str:
    """The name of the outermost type: ``list`` for ``Annotated[list[str], add]``."""
    if isinstance(annotation, ast.Subscript):
        outer = last_name(annotation)
        if outer in ("Annotated", "NotRequired", "Required", "Optional"):
            inner = annotation.slice
            return _type_name(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        return outer.casefold()
    return ast.unparse(annotation)


def _package_of(folder: Path, module: str) -> list[str]:
    """Return the parts of the package that relative imports start from: the module itself if it is one."""
    parts = module.split(".")
    is_package = any(path.name == "__init__.py" and path.is_file() for path in _paths_of(folder, module))
    return parts if is_package else parts[:-1]


def _tree(folder: Path, module: str) -> ast.Module | None:
    for path in _paths_of(folder, module):
        if text := read_text(path):
            return parsed_module(text)
    return None


def _paths_of(folder: Path, module: str) -> Iterator[Path]:
    """Where a module of the project may be."""
    return files_of_module(folder, module, *source_folders(folder))
