"""Finds the tasks of a crew that have a condition by reading the project's source. Nothing is run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from viewer.engines.crewai.project_source.definitions import is_file, read_definition
from viewer.engines.crewai.project_source.input_names import sources_of

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
        found = list(_declared(folder, entry_point))
    else:
        found = list(_in_source([tree for _path, tree in sources_of(folder, entry_point.partition(":")[0])]))
    names = frozenset(name for name, _text in found if name)
    return ConditionalTasks(names, frozenset(_folded(text) for _name, text in found if text))


def _declared(folder: Path, entry_point: str) -> Iterator[tuple[str, str]]:
    tasks = read_definition(folder, entry_point).get("tasks")
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, dict) and (task.get("type") in DECLARED or task.get("condition")):
            yield str(task.get("name") or ""), str(task.get("description") or "")


def _in_source(trees: list[ast.Module]) -> Iterator[tuple[str, str]]:
    """The name and description of each task that is made with a condition."""
    texts = {
        target.id: node.value.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    classes = _conditional_classes(trees)
    for tree in trees:
        for function, call in _calls(tree):
            if _name(call.func) in classes:
                given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                # The engine names the task of a @task method like the method.
                is_task = function is not None and "task" in map(_name, function.decorator_list)
                name = _text(given.get("name"), texts) or (function.name if function and is_task else "")
                yield name, _text(given.get("description"), texts)


def _conditional_classes(trees: list[ast.Module]) -> set[str]:
    """The names of the engine's class, under which the modules know it, and of its subclasses."""
    found = {BASE}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found |= {alias.asname for alias in node.names if alias.name == BASE and alias.asname}
    bases = {
        node.name: set(map(_name, node.bases))
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


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call | ast.Subscript):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr | None, texts: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id, "") if isinstance(node, ast.Name) else ""


def _folded(text: str) -> str:
    return " ".join(text.split())
