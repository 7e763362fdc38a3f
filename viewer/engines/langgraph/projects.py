"""Projects of LangGraph: the graphs that ``langgraph.json`` names, and what their state asks for.

Everything is read as text; nothing is imported.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from viewer.engines.checkpoint_events import EventGroup
from viewer.engines.entry_points import EntryPoint, EntryPointLabels, InputName
from viewer.engines.langgraph.kinds import GRAPH
from viewer.messages.marking import gettext_noop as _

CONFIGURATION = "langgraph.json"
MAX_BYTES = 512 * 1024
MAX_GRAPHS = 50
ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
LABELS = EntryPointLabels(
    hint=_("A graph continues in its own code. Choose what langgraph.json names."),
    form=_("package.module:name"),
    example="support.graph:graph",
)
# The types of annotations that a form has fields for.
KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """The graphs of the project's ``langgraph.json``; none without one."""
    try:
        graphs = json.loads(_read(folder / CONFIGURATION)).get("graphs")
    except (ValueError, AttributeError, RecursionError):
        return ()
    if not isinstance(graphs, dict):
        return ()
    named = [value.get("path") if isinstance(value, dict) else value for value in graphs.values()]
    found = [name for one in named[:MAX_GRAPHS] if isinstance(one, str) and (name := _importable(one))]
    return tuple(EntryPoint(name, GRAPH.name) for name in dict.fromkeys(found))


def _importable(named: str) -> str:
    """``module:graph`` for ``./src/module.py:graph``; empty if it cannot be imported by a name."""
    place, _colon, graph = named.strip().rpartition(":")
    if place.endswith(".py"):
        parts = Path(place.removesuffix(".py")).parts
        place = ".".join(parts[1:] if parts[:1] == ("src",) else parts)
    name = f"{place}:{graph}"
    return name if is_entry_point(name) else ""


def entry_point_for(folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
    """The entry point that a run belongs to: a thread does not say which of several."""
    return entry_points[0] if len(entry_points) == 1 else ""


def entry_point_kinds(folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
    """The root kind of each entry point."""
    return dict.fromkeys(entry_points, GRAPH.name)


def title_of(entry_point: str) -> str:
    """A short name of an entry point."""
    return entry_point.rpartition(":")[2]


def is_entry_point(text: str) -> bool:
    """Whether a text can name an entry point."""
    return ENTRY_POINT.fullmatch(text) is not None


def input_names(folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
    """The fields of the state that the entry point's module builds its graph on; empty if unclear."""
    module = entry_point.partition(":")[0]
    trees = _trees(folder, module)
    tree = trees.get(module)
    if tree is None:
        return ()
    for name in _states_in(tree):
        fields = _fields_of(folder, trees, module, name)
        if fields:
            return tuple(InputName(field, KINDS.get(annotation)) for field, annotation in fields)
    return ()


def _states_in(tree: ast.Module) -> Iterator[str]:
    """The names of the classes that the module's graphs have as their state."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        state = given.get("input_schema") or given.get("input") or given.get("state_schema")
        if called == "StateGraph" and state is None and node.args:
            state = node.args[0]
        if isinstance(state, ast.Name) and (called == "StateGraph" or "state_schema" in given):
            yield state.id


def _fields_of(
    folder: Path, trees: dict[str, ast.Module | None], module: str, name: str, depth: int = 0
) -> list[tuple[str, str]]:
    """The annotated fields of a class, with the names of their types, those of its bases first."""
    tree = trees.setdefault(module, _tree(folder, module))
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
            above = module.split(".")[: -node.level] if node.level else []
            source = ".".join(part for part in (*above, node.module or "") if part)
            return _fields_of(folder, trees, source, original, depth + 1)
    return []


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, _type_name(statement.annotation)


def _type_name(annotation: ast.expr) -> str:
    """The name of the outermost type: ``list`` for ``Annotated[list[str], add]``."""
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rpartition(".")[2]
        if outer in ("Annotated", "NotRequired", "Required", "Optional"):
            inner = annotation.slice
            return _type_name(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        return outer.casefold()
    return ast.unparse(annotation)


def _trees(folder: Path, module: str) -> dict[str, ast.Module | None]:
    return {module: _tree(folder, module)}


def _tree(folder: Path, module: str) -> ast.Module | None:
    parts = module.split(".")
    for root in (folder, folder / "src"):
        for path in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if text := _read(path):
                try:
                    return ast.parse(text)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
    return None


def _read(path: Path) -> str:
    """The text of a file of the project; empty if there is none, or if it is too long."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def checkpoint_events(interpreter: Path | None) -> tuple[EventGroup, ...]:
    """No events: LangGraph writes a checkpoint after every super-step."""
    return ()
