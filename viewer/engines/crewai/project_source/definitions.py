"""Reads crews and flows that a project declares in a file such as ``crew.jsonc`` or ``flow.yaml``."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

# Bounds: a project's folder may contain anything.
MAX_BYTES = 128 * 1024
MAX_ALIASES = 16
MAX_AGENTS = 60
JSON_SUFFIXES = (".jsonc", ".json")
YAML_SUFFIXES = (".yaml", ".yml")
FLOW_SCHEMA = "crewai.flow/"
# A path below the project's folder: no part of it is hidden, or leads upwards.
FILE = re.compile(r"(?:\w[\w. -]*/)*\w[\w. -]*\.(?:jsonc|json|yaml|yml)")
# Strings and comments, and strings and commas before a closing bracket. Each matches in linear time.
JSONC_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)', re.S)
TRAILING_COMMAS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|,(?=\s*+[}\]])', re.S)
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
    return path.name.endswith(YAML_SUFFIXES) and FLOW_SCHEMA in _text(path)


def agent_definitions(folder: Path, entry_point: str, crew: Definition) -> Iterator[Definition]:
    """Yield the definitions of a crew's agents, whose files are in ``agents`` next to the crew's file."""
    agents = (folder / entry_point).parent / "agents"
    names = [*_listed(crew.get("agents")), crew.get("manager_agent")]
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
    text = _text(path)
    try:
        value = parse_jsonc(text) if path.name.endswith(JSON_SUFFIXES) else FewAliases(text).get_single_data()
    except (ValueError, TypeError, AttributeError, yaml.YAMLError, RecursionError, MemoryError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_jsonc(text: str) -> Any:
    """The value of JSON with comments and trailing commas. Raises ValueError, RecursionError."""

    def without_comment(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else " "

    def without_comma(found: re.Match[str]) -> str:
        return "" if found[0] == "," else found[0]

    return json.loads(TRAILING_COMMAS.sub(without_comma, JSONC_TOKENS.sub(without_comment, text)))


class FewAliases(yaml.SafeLoader):
    """Loads plain values, and at most ``MAX_ALIASES`` aliases, so that their expansion stays small."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            self.aliases += 1
            if self.aliases > MAX_ALIASES:
                raise yaml.YAMLError(f"more than {MAX_ALIASES} aliases")
        return super().compose_node(parent, index)


def _text(path: Path) -> str:
    """Return the text of a regular file; empty for a link, and for a file that is too large or not text."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
