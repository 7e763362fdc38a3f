"""Finds the flows, crews and agents of a project by reading its source. Nothing is run."""

import ast
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from viewer.engines.crewai.recorded_events import STATE, listed, mapping
from viewer.engines.entry_points import (
    EntryPoint,
    EntryPointLabels,
    aliases_in,
    files_of_module,
    last_name,
    parsed_module,
)
from viewer.messages.catalog import gettext_noop as _
from viewer.validation import content_at

# Reads crews and flows that a project declares in a file such as ``crew.jsonc`` or ``flow.yaml``.


# Bounds: a project's folder may contain anything.
MAX_DEFINITION_BYTES = 128 * 1024
MAX_ALIASES = 16
MAX_AGENTS = 60
JSON_SUFFIXES = (".jsonc", ".json")
YAML_SUFFIXES = (".yaml", ".yml")
FLOW_SCHEMA = "crewai.flow/"
# A path below the project's folder: no part of it is hidden, or leads upwards.
FILE = re.compile(r"(?:\w[\w. -]*/)*\w[\w. -]*\.(?:jsonc|json|yaml|yml)")
# Strings and comments, and strings and commas before a closing bracket. Each matches in linear time. Python
# before 3.11.5 goes wrong where a possessive group fails after its first part has matched.
_STRING = r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)'
JSONC_TOKENS = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
TRAILING_COMMAS = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.S)
Definition = dict[str, Any]


def is_file(entry_point: str) -> bool:
    """Whether the entry point is a file's path in the project, not ``module:name``."""
    return FILE.fullmatch(entry_point) is not None


def read_definition(folder: Path, entry_point: str) -> Definition:
    """Return the definition in a file; empty if the file is invalid, too large or outside the folder."""
    if not is_file(entry_point):
        return {}
    path = folder / entry_point
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return {}
    except (OSError, RuntimeError):
        return {}
    return _read(path)


def kind_of(definition: Definition) -> str:
    """Return ``crew`` or ``flow``; an empty text if the definition is neither."""
    if isinstance(definition.get("methods"), dict):
        return "flow" if str(definition.get("schema", FLOW_SCHEMA)).startswith(FLOW_SCHEMA) else ""
    agents, tasks = definition.get("agents"), definition.get("tasks")
    return "crew" if isinstance(agents, list) and isinstance(tasks, list) and tasks else ""


def may_be_definition(path: Path) -> bool:
    """Whether to read this file. Crews are recognised by the file's name, flows by their schema."""
    if path.name in {"crew.jsonc", "crew.json"}:
        return True
    return path.name.endswith(YAML_SUFFIXES) and FLOW_SCHEMA in text_at(path, MAX_DEFINITION_BYTES)


def agent_definitions(folder: Path, entry_point: str, crew: Definition) -> Iterator[Definition]:
    """Yield the definitions of a crew's agents, whose files are in ``agents`` next to the crew's file."""
    agents = (folder / entry_point).parent / "agents"
    names = [*listed(crew.get("agents")), crew.get("manager_agent")]
    for name in names[:MAX_AGENTS]:
        if isinstance(name, str) and re.fullmatch(r"\w[\w -]*", name):
            found = (_read(agents / f"{name}{suffix}") for suffix in JSON_SUFFIXES)
            yield next((agent for agent in found if agent), {})


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a declared value, at any depth. A shared value is read once."""
    seen: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list) and id(one) not in seen:
            seen.add(id(one))
            left += reversed(list(one.values()) if isinstance(one, dict) else one)


def _read(path: Path) -> Definition:
    text = text_at(path, MAX_DEFINITION_BYTES)
    try:
        is_json = path.name.endswith(JSON_SUFFIXES)
        return mapping(parse_jsonc(text) if is_json else FewAliases(text).get_single_data())
    except (ValueError, TypeError, LookupError, AttributeError, yaml.YAMLError, RecursionError, MemoryError):
        return {}


def parse_jsonc(text: str) -> Any:
    """The value of JSON with comments and trailing commas. Raises ValueError, RecursionError."""

    def without_comment(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else " "

    def without_comma(found: re.Match[str]) -> str:
        return "" if found[0] == "," else found[0]

    return json.loads(TRAILING_COMMAS.sub(without_comma, JSONC_TOKENS.sub(without_comment, text)))


class FewAliases(yaml.SafeLoader):
    """Loads plain values, with at most ``MAX_ALIASES`` aliases and none of a value that contains it.

    So their expansion stays small.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias:
            self.aliases += 1
            # A value that contains the alias has no end yet.
            if self.aliases > MAX_ALIASES or node is None or node.end_mark is None:
                raise yaml.YAMLError(f"more than {MAX_ALIASES} aliases, or one of a value that contains it")
        return node


def text_at(path: Path, max_bytes: int) -> str:
    """Return the text of a regular file; empty for a link, and for a file that is too large or not text."""
    try:
        return (content_at(path, max_bytes) or b"").decode()
    except ValueError:
        return ""


# Finds entry points in Python files, and in files that declare one.


# Bounds: a project's folder may contain anything.
MAX_FILES = 400
MAX_FOLDERS = 2_000
MAX_DEPTH = 6
MAX_BYTES = 256 * 1024
MAX_BYTES_ALTOGETHER = 4 * 1024 * 1024
MAX_ENTRY_POINTS = 50
MAX_DEFINITIONS = 100
NO_SOURCE = {"node_modules", "site-packages", "__pycache__", "build", "dist", "tests", "test", "docs"}
MODULE_AND_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
LABELS = EntryPointLabels(
    hint=_(
        "A flow continues in its own class or declaration. A crew takes its tools, guardrails and links "
        "between tasks from its code."
    ),
    form=_("package.module:Name or crew.jsonc"),
    example="newsroom.crew:build",
)
MADE = {"Crew": "crew", "Agent": "agent"}


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """The flows, crews and agents in a folder's source, the project's own kind and packages first.

    At most ``MAX_ENTRY_POINTS`` are returned.
    """
    modules = [parsed for path in _source_files(folder) if (parsed := _read_module(folder, path))]
    flows = _flow_classes(modules)
    settings = _project_settings(folder)
    found = list(_declared(folder, settings))
    found += [point for module in modules for point in _entry_points_of(module, flows)]
    packages = {
        str(target).split(":")[0].split(".")[0] for target in _table(settings, "project", "scripts").values()
    }
    kind = _table(settings, "tool", "crewai").get("type")
    found.sort(key=lambda point: (point.kind != kind, point.name.split(".")[0].split(":")[0] not in packages))
    return tuple(found[:MAX_ENTRY_POINTS])


def title_of(entry_point: str) -> str:
    """Return the short name of an entry point: its name in the module, or the path of its file."""
    return entry_point if is_file(entry_point) else entry_point.partition(":")[2]


def is_entry_point(text: str) -> bool:
    """Whether a text can name an entry point: ``module:Name``, or a file that declares one."""
    return MODULE_AND_NAME.fullmatch(text) is not None or is_file(text)


def _declared(folder: Path, settings: dict[str, Any]) -> Iterator[EntryPoint]:
    """The crews and flows that files declare. The file that the project's settings name comes first."""
    named = _table(settings, "tool", "crewai").get("definition")
    found = [str(Path(named))] if isinstance(named, str) else []
    bytes_left = MAX_BYTES_ALTOGETHER
    for path in islice(_files(folder, (*JSON_SUFFIXES, *YAML_SUFFIXES)), MAX_FILES):
        bytes_left -= _size(path)
        if bytes_left >= 0 and may_be_definition(path):
            found.append(path.relative_to(folder).as_posix())
    for name in list(dict.fromkeys(found))[:MAX_DEFINITIONS]:
        kind = kind_of(read_definition(folder, name))
        if kind:
            yield EntryPoint(name, kind)


def entry_point_for(folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
    """Return the entry point that a checkpoint of this kind and name belongs to; empty if that is unclear.

    A flow is identified by its class. A crew is seldom named like its function, and the state of a flow has
    no name, so the project's only crew or flow also matches.
    """
    kind = "flow" if kind == STATE else kind
    named = [
        point
        for point in entry_points
        if _normalised(_name_in_checkpoints(folder, point)) == _normalised(name)
    ]
    of_kind = [point for point in entry_points if kind in _kinds_of(folder, point)]
    both = [point for point in named if point in of_kind]
    # A flow can only be restored through its own class.
    for candidates in (both, named if kind == "flow" and name else of_kind):
        if len(candidates) == 1:
            return candidates[0]
    return ""


def entry_point_kinds(folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
    """Return ``crew``, ``flow`` or ``agent`` for each entry point; empty if its source does not show it."""
    found = {point.name: point.kind for point in find_entry_points(folder)}
    return {name: found.get(name) or next(iter(sorted(_kinds_of(folder, name))), "") for name in entry_points}


def _name_in_checkpoints(folder: Path, entry_point: str) -> str:
    """Return the name that checkpoints of this entry point have: the name in its file, or in its module."""
    if is_file(entry_point):
        return str(read_definition(folder, entry_point).get("name") or "")
    return entry_point.partition(":")[2]


def _normalised(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _kinds_of(folder: Path, entry_point: str) -> set[str]:
    """Return the kinds of an entry point, read from its module or file; empty if they are not clear."""
    if is_file(entry_point):
        return {kind_of(read_definition(folder, entry_point))} - {""}
    for path in files_of_module(folder, entry_point.partition(":")[0]):
        module = _read_module(folder, path) if 0 < _size(path) <= MAX_BYTES else None
        if module is not None:
            points = _entry_points_of(module, _flow_classes([module]))
            return {point.kind for point in points if point.name == entry_point}
    return set()


@dataclass(frozen=True, slots=True)
class _Module:
    name: str
    tree: ast.Module
    # The original names of what this module imports.
    imported: dict[str, str]

    def original(self, node: ast.expr | None) -> str:
        """Return the last part of the name in a base, decorator or annotation, with aliases resolved."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.rpartition(".")[2]
        return last_name(node, self.imported)


def _flow_classes(modules: list[_Module]) -> set[str]:
    """Return the names of all direct and indirect subclasses of Flow."""
    bases = {
        node.name: {module.original(base) for base in node.bases}
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    flows = {"Flow"}
    while more := {name for name, parents in bases.items() if parents & flows and name not in flows}:
        flows |= more
    return flows


def _entry_points_of(module: _Module, flows: set[str]) -> Iterator[EntryPoint]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef):
            if any(module.original(base) in flows for base in node.bases):
                yield EntryPoint(f"{module.name}:{node.name}", "flow")
            elif any(module.original(decorator) == "CrewBase" for decorator in node.decorator_list):
                yield EntryPoint(f"{module.name}:{node.name}", "crew")
        elif isinstance(node, ast.FunctionDef) and (made := _made_by(module, node, flows)):
            yield EntryPoint(f"{module.name}:{node.name}", made)


def _made_by(module: _Module, node: ast.FunctionDef, flows: set[str]) -> str:
    """Return the kind of what a function without required arguments returns; empty if that is unclear."""
    arguments = node.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if needed or any(default is None for default in arguments.kw_defaults):
        return ""
    if node.returns is not None:
        return _made(module, node.returns, flows)
    last = node.body[-1]
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
        function = last.value.func
        if isinstance(function, ast.Attribute) and function.attr == "from_declaration":
            return "flow"
        return _made(module, last.value, flows)
    return ""


def _made(module: _Module, node: ast.expr, flows: set[str]) -> str:
    name = module.original(node)
    return "flow" if name in flows else MADE.get(name, "")


def _source_files(folder: Path) -> Iterator[Path]:
    """The project's Python files, up to the limits on their number and size."""
    files_left, bytes_left = MAX_FILES, MAX_BYTES_ALTOGETHER
    for path in _files(folder, (".py",)):
        size = _size(path)
        if not 0 < size <= MAX_BYTES:
            continue
        files_left, bytes_left = files_left - 1, bytes_left - size
        if files_left < 0 or bytes_left < 0:
            return
        yield path


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the project's files with these suffixes, except in environments and hidden or linked folders."""
    for current, folders, files in islice(os.walk(folder), MAX_FOLDERS):
        depth = len(Path(current).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if depth < MAX_DEPTH and _may_hold_source(current, name))
        yield from (Path(current) / name for name in sorted(files) if name.endswith(suffixes))


def _size(path: Path) -> int:
    """Return the size of a regular file in bytes; 0 for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _may_hold_source(parent: str, name: str) -> bool:
    # Packages are named by identifiers, and virtual environments have a pyvenv.cfg.
    return name.isidentifier() and name not in NO_SOURCE and not _size(Path(parent) / name / "pyvenv.cfg")


def _read_module(folder: Path, path: Path) -> _Module | None:
    """Return the module in a file; None if it cannot define an entry point or is not valid Python."""
    root = folder / "src" if path.is_relative_to(folder / "src") else folder
    parts = path.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    content = content_at(path, MAX_BYTES) or b""
    if not any(word in content for word in (b"class ", b"Crew", b"Agent", b"from_declaration")):
        return None
    tree = parsed_module(content)
    return _Module(".".join(parts), tree, aliases_in(tree)) if tree else None


def _project_settings(folder: Path) -> dict[str, Any]:
    content = content_at(folder / "pyproject.toml", MAX_BYTES, follows_links=True) or b""
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return {}


def _table(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    value: Any = settings
    for name in names:
        value = mapping(value).get(name)
    return mapping(value)
