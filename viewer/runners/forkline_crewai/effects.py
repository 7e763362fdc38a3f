"""The effects of a checkpoint of CrewAI. Imports nothing.

Only tools and models have effects: sanitizing drops everything else. With an entry point, and for a flow,
they come from the project's own code, and the checkpoint has no effects.

Every text, number and truth value of a tool is an effect, unless the code gives the same one to the same
field of the class. It is accepted for this field of this class, next to the tool's other values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import forkline_guard
from forkline_crewai.sanitizing import (
    ENGINE_TOOLS,
    MADE_OF_FUNCTIONS,
    address_names,
    dicts_in,
    providers_of,
    restored_fields,
)
from forkline_runner import own_code, resolving
from forkline_runner.effects import MAX_NAME, Effect, digest_of, value_effect

if TYPE_CHECKING:
    from viewer.engines.runner_request import Request

# The entities that always come from the project's own code.
FROM_PROJECT = ("flow", "flow_state")
# The engine's own fields of a tool that hold no text, and change while it is used.
ENGINE_FIELDS = frozenset(
    """
    tool_type description_updated result_as_answer max_usage_count current_usage_count tool_failure_policy
    """.split()  # noqa: SIM905 - a list of words
)
# Older versions of the engine store a tool's description with its name and arguments.
COMPOSITE = re.compile(r"Tool Name: .*?\nTool Arguments: .*\nTool Description: (.*)", re.DOTALL)
# The variables that choose the model of an agent without one, and the engine's own choice.
MODEL_VARIABLES = ("MODEL", "MODEL_NAME", "OPENAI_MODEL_NAME")
DEFAULT_MODEL = "gpt-4.1-mini"
# The variables of a provider's keys, if it is not <PROVIDER>_API_KEY alone.
KEYS = {
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}


def effects_of(saved: Mapping[str, Any], request: Request, environment: Mapping[str, str]) -> list[Effect]:
    """Return the effects of a checkpoint, each once. ``saved`` is its root entity."""
    if request["entry_point"] or request["entity"] in FROM_PROJECT or not saved:
        return []
    found: dict[str, Effect] = {}
    imported = resolving.imported_by(request.get("entry_points") or [])
    for effect in (*_of_tools(saved, imported, environment), *_of_models(saved, environment)):
        found.setdefault(effect.key, effect)
    return list(found.values())


def pin_modules(saved: Mapping[str, Any], request: Request) -> None:
    """Allow modules that the checkpoint names to be imported only with their current content."""
    if request["entry_point"] or request["entity"] in FROM_PROJECT:
        return
    imported = resolving.imported_by(request.get("entry_points") or [])
    for tool in _tools_in(saved):
        for file in resolving.files_if_found(str(tool["tool_type"]).rpartition(".")[0]):
            if file.name not in imported and file.name not in sys.modules:
                forkline_guard.pin(file.name, file.path, file.digest)


def _of_tools(
    saved: Mapping[str, Any], imported: set[str], environment: Mapping[str, str]
) -> Iterator[Effect]:
    for tool in _tools_in(saved):
        kind = str(tool["tool_type"])
        module, _dot, name = kind.rpartition(".")
        files = resolving.files_if_found(module)
        if files and module not in imported:
            yield Effect("module", module[:MAX_NAME], files[-1].path, resolving.digest_of(files), kind)
        for variable in tool.get("env_vars") or []:
            named = variable.get("name") if isinstance(variable, dict) else variable
            if isinstance(named, str) and environment.get(named):
                yield Effect("key", named[:MAX_NAME], kind, tool=kind)
        if not files:
            # Sanitizing refuses a tool whose module cannot be resolved.
            continue
        fields = {
            field: _authored(value) if field == "description" else value
            for field, value in restored_fields(tool, lambda _: True).items()
            if field not in ENGINE_FIELDS
        }
        given = digest_of(fields)
        for path, value in own_code.differing_values(module, name, fields, imported):
            yield value_effect(kind, path, value, given)


def _authored(description: Any) -> Any:
    found = COMPOSITE.fullmatch(description) if isinstance(description, str) else None
    return found[1] if found else description


def _of_models(saved: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the hosts that the checkpoint's models call, and the keys that they use.

    An address in the project's environment is the project's choice, not an effect of the checkpoint.
    """
    for model in _models_in(saved, environment):
        for provider in providers_of(model):
            if not any(environment.get(variable) for variable in address_names(provider)):
                yield Effect("host", provider[:MAX_NAME], "the provider's own address", tool=provider)
            for name in KEYS.get(provider, (f"{provider.upper()}_API_KEY",)):
                if environment.get(name):
                    yield Effect("key", name[:MAX_NAME], provider[:MAX_NAME], tool=provider)


def _models_in(saved: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Any]:
    """Yield the models of the checkpoint, and the one that the engine chooses where it has none."""
    default = next((environment[name] for name in MODEL_VARIABLES if environment.get(name)), DEFAULT_MODEL)
    owners = _owners(saved)
    if isinstance(saved.get("manager_agent"), dict):
        owners.append(saved["manager_agent"])
    for owner in owners:
        for field in ("llm", "function_calling_llm", "manager_llm", "planning_llm"):
            model = owner.get(field)
            if (isinstance(model, str) and model) or (isinstance(model, dict) and model.get("model")):
                yield model
            elif (field == "llm" and "role" in owner) or (field == "planning_llm" and _plans(owner)):
                yield default


def _plans(owner: Mapping[str, Any]) -> bool:
    return bool(owner.get("planning")) and "tasks" in owner


def _tools_in(saved: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tools that are restored, and those in their fields, which the engine restores as well."""
    for owner in _owners(saved):
        for tool in dicts_in(owner.get("tools")):
            kind = str(tool.get("tool_type") or "")
            if kind and not kind.startswith(ENGINE_TOOLS) and kind not in MADE_OF_FUNCTIONS:
                yield tool
                yield from _inner_tools(list(tool.values()))


def _inner_tools(waiting: list[Any]) -> Iterator[dict[str, Any]]:
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if isinstance(value.get("tool_type"), str):
                yield value


def _owners(saved: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tasks = dicts_in(saved.get("tasks"))
    agents = [task["agent"] for task in tasks if isinstance(task.get("agent"), dict)]
    return [saved, *dicts_in(saved.get("agents")), *tasks, *agents]
