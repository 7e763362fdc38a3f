"""The effects of a checkpoint of CrewAI. Imports nothing.

Only tools and models have effects: sanitizing drops everything else. With an entry point, and for a flow,
they come from the project's own code, and the checkpoint has no effects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore.sanitizing import ENGINE_TOOLS, MADE_OF_FUNCTIONS, address_names, provider_of
from forkline_guard import guard
from forkline_runner.loaded_code import resolving
from forkline_runner.loaded_code.effects import MAX_NAME, Effect, in_value

if TYPE_CHECKING:
    from viewer.jobs.request import Request

# The fields of every tool of the engine.
USUAL_FIELDS = frozenset(
    """
    name description tool_type env_vars args_schema result_schema description_updated cache_function
    result_as_answer max_usage_count current_usage_count package_dependencies
    """.split()  # noqa: SIM905 - a list of words
)


# The variables of a provider's keys, if it is not <PROVIDER>_API_KEY alone.
KEYS = {
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}


def effects_of(saved: Mapping[str, Any], request: Request, environment: Mapping[str, str]) -> list[Effect]:
    """Return the effects of a checkpoint, each once. ``saved`` is its root entity."""
    if request["entry_point"] or request["entity"] == "flow" or not saved:
        return []
    found: dict[str, Effect] = {}
    imported = resolving.imported_by(request.get("entry_points") or [])
    for effect in (*_of_tools(saved, imported, environment), *_of_models(saved, environment)):
        found.setdefault(effect.key, effect)
    return list(found.values())


def pin_modules(saved: Mapping[str, Any], request: Request) -> None:
    """Allow modules that the checkpoint names to be imported only with their current content."""
    if request["entry_point"] or request["entity"] == "flow":
        return
    imported = resolving.imported_by(request.get("entry_points") or [])
    for tool in _tools_in(saved):
        for file in resolving.files_if_found(str(tool["tool_type"]).rpartition(".")[0]):
            if file.name not in imported and file.name not in sys.modules:
                guard.pin(file.name, file.path, file.digest)


def _of_tools(
    saved: Mapping[str, Any], imported: set[str], environment: Mapping[str, str]
) -> Iterator[Effect]:
    for tool in _tools_in(saved):
        kind = str(tool["tool_type"])
        module = kind.rpartition(".")[0]
        files = resolving.files_if_found(module)
        # Sanitizing refuses a tool whose module cannot be resolved.
        if files and not kind.startswith("crewai.") and module not in imported:
            yield Effect("module", module, files[-1].path, resolving.digest_of(files))
        for variable in tool.get("env_vars") or []:
            name = variable.get("name") if isinstance(variable, dict) else variable
            if isinstance(name, str) and environment.get(name):
                yield Effect("key", name[:MAX_NAME], kind)
        for field, value in tool.items():
            if field not in USUAL_FIELDS:
                yield from in_value(field, value, kind)


def _of_models(saved: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the hosts that the checkpoint's models call, and the keys that they use.

    An address in the project's environment is the project's choice, not an effect of the checkpoint.
    """
    for model in _models_in(saved):
        provider = provider_of(model)
        if not any(environment.get(variable) for variable in address_names(provider)):
            yield Effect("host", provider, "the provider's own address")
        for name in KEYS.get(provider, (f"{provider.upper()}_API_KEY",)):
            if environment.get(name):
                yield Effect("key", name, provider)


def _models_in(saved: Mapping[str, Any]) -> Iterator[Any]:
    owners = _owners(saved)
    if isinstance(saved.get("manager_agent"), dict):
        owners.append(saved["manager_agent"])
    for owner in owners:
        for field in ("llm", "function_calling_llm", "manager_llm", "planning_llm"):
            model = owner.get(field)
            if (isinstance(model, str) and model) or (isinstance(model, dict) and model.get("model")):
                yield model


def _tools_in(saved: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for owner in _owners(saved):
        for tool in _dicts(owner.get("tools")):
            kind = str(tool.get("tool_type") or "")
            if kind and not kind.startswith(ENGINE_TOOLS) and kind not in MADE_OF_FUNCTIONS:
                yield tool


def _owners(saved: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tasks = _dicts(saved.get("tasks"))
    agents = [task["agent"] for task in tasks if isinstance(task.get("agent"), dict)]
    return [saved, *_dicts(saved.get("agents")), *tasks, *agents]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value or [] if isinstance(one, dict)] if isinstance(value, list) else []
