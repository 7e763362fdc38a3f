"""Finds models whose provider's package is not installed, before anything runs.

The engine creates the models of inner crews, managers, planners and feedback only when it needs them, which
may be after calls that were paid for.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crewai import LLM

from forkline_crewai.restore import components
from forkline_runner import project

# Arguments and fields that name a model.
MODEL_FIELDS = {"llm", "model", "manager_llm", "planning_llm", "function_calling_llm", "chat_llm"}
MAX_BYTES = 256 * 1024
MAX_MODELS = 50
_YAML_MODEL = re.compile(r"^\s*(?:llm|function_calling_llm)\s*:\s*['\"]?([\w.\-]+/[\w./:\-]+)", re.MULTILINE)


def missing(made: Any) -> list[components.Component]:
    """Return the models in a crew or flow and in the project's source that cannot be created, as losses.

    Call it after the project's entry point was imported.
    """
    names = dict.fromkeys([*_named_by(made), *_named_in_source()])
    return [
        components.component("providers", f"{name} ({advice})" if advice else name, "lost")
        for name in list(names)[:MAX_MODELS]
        if (advice := advice_for(name)) is not None
    ]


def advice_for(model: str) -> str | None:
    """Return what to install for this model: None if nothing, empty if the engine does not name it."""
    try:
        LLM(model=model)
    except ImportError as error:
        # The engine raises ImportError for any error, such as a missing key, with the error as its cause.
        if error.__cause__ is None or isinstance(error.__cause__, ImportError):
            found = re.search(r"crewai\[[\w\-]+\]", f"{error} {error.__cause__}")
            return found[0] if found else ""
    except Exception:
        return None
    return None


def _named_by(made: Any) -> Iterator[str]:
    for field in sorted(MODEL_FIELDS):
        value = getattr(made, field, None)
        if isinstance(value, str):
            yield value


def _named_in_source() -> Iterator[str]:
    """Yield the models in the project's loaded modules and in the YAML files next to them."""
    # By folder and as strings: thousands of Path objects would delay every run.
    names: dict[str, set[str]] = {}
    for module in list(sys.modules.values()):
        parent, _, name = str(getattr(module, "__file__", None) or "").rpartition(os.sep)
        if name.endswith(".py"):
            names.setdefault(parent, set()).add(name)
    folders = [parent for parent in sorted(names) if project.is_in_project(Path(parent))]
    for path in (Path(parent, name) for parent in folders for name in sorted(names[parent])):
        yield from _named_in_python(_text(path))
    for folder in map(Path, folders):
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("config/*.yaml")]):
            yield from _YAML_MODEL.findall(_text(path))


def _named_in_python(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        values = [keyword.value for keyword in node.keywords if keyword.arg in MODEL_FIELDS]
        if isinstance(node.func, ast.Name) and node.func.id == "LLM":
            values += node.args[:1]
        for value in values:
            # Without a provider's name it may be any argument.
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and "/" in value.value:
                yield value.value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= MAX_BYTES else ""
    except OSError:
        return ""
