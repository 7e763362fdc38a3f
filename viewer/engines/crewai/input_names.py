"""Finds the inputs and conditional tasks of a crew or flow by reading its source. Nothing is run."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from viewer.engines.crewai.entry_points import (
    Definition,
    agent_definitions,
    is_file,
    read_definition,
    text_at,
    texts_in,
)
from viewer.engines.crewai.recorded_events import listed, mapping
from viewer.engines.entry_points import (
    ANNOTATIONS,
    JSON_TYPES,
    InputName,
    assigned_texts,
    files_of_module,
    last_name,
    parsed_module,
    texts_in_node,
)

# Placeholders such as ``{topic}``, which CrewAI replaces with the values of a run's inputs.


PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*)\}")


def placeholder_names(text: str) -> list[str]:
    """The names in the text's placeholders, in order, with repetitions."""
    return PLACEHOLDER.findall(text)


def has_placeholder(text: str, name: str) -> bool:
    """Whether the text has a placeholder for this input."""
    return "{" + name + "}" in text


# Inputs that the source names or uses.


# Bounds: a project's folder may contain anything.
MAX_BYTES = 256 * 1024
MAX_FILES = 60
MAX_NAMES = 60
# The arguments whose placeholders the engine replaces with inputs.
TEXTS = {"description", "expected_output", "role", "goal", "backstory"}
# The fields of the state that a declared flow's expressions read.
STATE = re.compile(r"\bstate\.([A-Za-z_]\w*)")
MAX_DEFAULT = 20_000


def input_names(folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
    """Return the inputs that an entry point's source names; empty for an agent."""
    if kind == "agent":
        return ()
    if is_file(entry_point):
        found = list(_declared(folder, entry_point, kind))
    else:
        sources = list(sources_of(folder, entry_point.partition(":")[0]))
        if not sources:
            return ()
        if kind == "flow":
            found = list(_of_flow(entry_point.partition(":")[2], [tree for _, tree in sources]))
        else:
            found = [InputName(name) for name in _of_crew(sources)]
    # A field of a class overrides that of its parent. The id of a flow is not an input.
    named = {one.name: one for one in found if one.name != "id"}
    return tuple(named.values())[:MAX_NAMES]


def _declared(folder: Path, entry_point: str, kind: str) -> Iterator[InputName]:
    """Yield the inputs that a file declares or uses, with their defaults."""
    definition = read_definition(folder, entry_point)
    if kind == "flow":
        found = {one.name: one for one in _of_declared_flow(folder, definition)}
        used = {name for text in texts_in(definition.get("methods")) for name in STATE.findall(text)}
    else:
        found = {one.name: one for one in _with_defaults(definition.get("inputs"))}
        declared = [definition.get("tasks"), *agent_definitions(folder, entry_point, definition)]
        used = {name for text in texts_in(declared) for name in placeholder_names(text)}
    yield from (InputName(name) for name in sorted(used - found.keys()))
    yield from found.values()


def _of_declared_flow(folder: Path, definition: Definition) -> Iterator[InputName]:
    """The fields of a declared state, from the class that it names, its schema and its defaults."""
    state = definition.get("state")
    if not isinstance(state, dict):
        return
    module, _, name = str(state.get("ref") or "").partition(":")
    if name:
        classes = [tree for _, tree in sources_of(folder, module)]
        yield from _of_state(name, _classes_in(classes))
    for key, value in mapping(mapping(state.get("json_schema")).get("properties")).items():
        field = mapping(value)
        kind = JSON_TYPES.get(str(field.get("type")))
        yield _with_default(str(key), kind, field.get("default"))
    yield from _with_defaults(state.get("default"))


def _with_defaults(values: Any) -> Iterator[InputName]:
    for key, value in mapping(values).items():
        yield _with_default(str(key), type(value) if type(value) in JSON_TYPES.values() else None, value)


def _with_default(name: str, kind: type | None, default: Any) -> InputName:
    """The input, with its default if that can be written as JSON and is short enough for a form."""
    try:
        is_plain = default is not None and len(json.dumps(default)) <= MAX_DEFAULT
    except (ValueError, TypeError, RecursionError):
        is_plain = False
    return InputName(name, kind, default, True) if is_plain else InputName(name, kind)


def _of_crew(sources: list[tuple[Path, ast.Module]]) -> Iterator[str]:
    """The placeholders in the texts of a crew's tasks and agents, in Python and in YAML."""
    for _, tree in sources:
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in TEXTS:
                value = constants.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
                for text in texts_in_node(value) if value else ():
                    yield from placeholder_names(text)
    for path in _yaml_files(sources[0][0].parent):
        for line in text_at(path, MAX_BYTES).splitlines():
            if not line.lstrip().startswith("#"):
                yield from placeholder_names(line)


def _of_flow(name: str, trees: list[ast.Module]) -> Iterator[InputName]:
    """The fields of the class of a flow's state, or the keys that methods read if it is a dictionary."""
    classes = _classes_in(trees)
    flow = classes.get(name)
    if flow is None:
        return
    states = [base.slice for base in flow.bases if isinstance(base, ast.Subscript)]
    names = [last_name(one) for one in states]
    if not names or names[0] not in classes:
        yield from (InputName(key) for key in _read_of_state(flow))
        return
    yield from _of_state(names[0], classes)


def _classes_in(trees: list[ast.Module]) -> dict[str, ast.ClassDef]:
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_state(name: str, classes: dict[str, ast.ClassDef]) -> Iterator[InputName]:
    """The fields of the class of a state and of its parents."""
    state = classes.get(name)
    if state is None:
        return
    for parent in (*(classes.get(last_name(base)) for base in state.bases), state):
        for field in parent.body if parent else ():
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield _field(field.target.id, field)


def _field(name: str, field: ast.AnnAssign) -> InputName:
    kind = ANNOTATIONS.get(last_name(field.annotation))
    try:
        default = ast.literal_eval(field.value) if field.value else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return InputName(name, kind)
    plain = isinstance(default, str | int | float | bool | list | dict)
    return InputName(name, kind, default, plain) if plain else InputName(name, kind)


def _read_of_state(flow: ast.ClassDef) -> list[str]:
    """The keys of ``self.state`` that a flow's methods read and never set."""
    read: dict[str, None] = {}
    written = set()
    for node in ast.walk(flow):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_state(node.value):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            key = node.args[0] if node.args and _is_state(node.func.value) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                written.add(key.value)
            else:
                read[key.value] = None
    return [name for name in read if name not in written]


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "state" and last_name(node.value) == "self"


def sources_of(folder: Path, module: str) -> Iterator[tuple[Path, ast.Module]]:
    """The paths and trees of the entry point's module and of the project's modules that it imports from."""
    first = _module(folder, module)
    if first is None:
        return
    yield first
    path, tree = first
    # Relative imports of a package start from itself.
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            name = ".".join(filter(None, [above if node.level else "", node.module or ""]))
            found = _module(folder, name)
            if found:
                yield found


def _module(folder: Path, name: str) -> tuple[Path, ast.Module] | None:
    for path in files_of_module(folder, name):
        if text := text_at(path, MAX_BYTES):
            tree = parsed_module(text)
            return (path, tree) if tree else None
    return None


def _yaml_files(folder: Path) -> Iterator[Path]:
    """Yield the YAML files next to the module and in ``config``, where the engine's template has them."""
    found = (path for searched in (folder, folder / "config") for path in sorted(searched.glob("*.y*ml")))
    yield from islice(found, MAX_FILES)


# Finds the tasks of a crew that have a condition by reading the project's source. Nothing is run.


BASE = "ConditionalTask"
# The types of such a task in a declared crew.
DECLARED = {"conditional", "conditional_task", BASE, "crewai.tasks.conditional_task.ConditionalTask"}


@dataclass(frozen=True, slots=True)
class ConditionalTasks:
    """The names and the descriptions, with their {placeholders}, of tasks with a condition."""

    names: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def has(self, name: str, template: str) -> bool:
        """Whether a task with this name and description has a condition."""
        return name in self.names or _folded(template) in self.texts


def conditional_tasks(folder: Path, entry_point: str) -> ConditionalTasks:
    """Return the tasks with a condition, as far as the source of the entry point shows them."""
    if is_file(entry_point):
        found = list(_declared_tasks(folder, entry_point))
    else:
        found = list(_in_source([tree for _path, tree in sources_of(folder, entry_point.partition(":")[0])]))
    names = frozenset(name for name, _text in found if name)
    return ConditionalTasks(names, frozenset(_folded(text) for _name, text in found if text))


def _declared_tasks(folder: Path, entry_point: str) -> Iterator[tuple[str, str]]:
    for task in listed(read_definition(folder, entry_point).get("tasks")):
        if isinstance(task, dict) and (task.get("type") in DECLARED or task.get("condition")):
            yield str(task.get("name") or ""), str(task.get("description") or "")


def _in_source(trees: list[ast.Module]) -> Iterator[tuple[str, str]]:
    """The name and description of each task that is made with a condition."""
    texts = assigned_texts(node for tree in trees for node in ast.walk(tree))
    classes = _conditional_classes(trees)
    for tree in trees:
        for function, call in _calls(tree):
            if last_name(call.func) in classes:
                given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                # The engine names the task of a @task method like the method.
                is_task = function is not None and "task" in map(last_name, function.decorator_list)
                name = _text_of_node(given.get("name"), texts) or (
                    function.name if function and is_task else ""
                )
                yield name, _text_of_node(given.get("description"), texts)


def _conditional_classes(trees: list[ast.Module]) -> set[str]:
    """The names of the engine's class, under which the modules know it, and of its subclasses."""
    found = {BASE}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found |= {alias.asname for alias in node.names if alias.name == BASE and alias.asname}
    bases = {
        node.name: set(map(last_name, node.bases))
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def _calls(
    tree: ast.Module,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, ast.Call]]:
    """Each call, with the innermost function around it."""
    waiting: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, ast.AST]] = [(None, tree)]
    while waiting:
        function, node = waiting.pop()
        if isinstance(node, ast.Call):
            yield function, node
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        waiting += [(inner, child) for child in ast.iter_child_nodes(node)]


def _text_of_node(node: ast.expr | None, texts: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id, "") if isinstance(node, ast.Name) else ""


def _folded(text: str) -> str:
    return " ".join(text.split())
