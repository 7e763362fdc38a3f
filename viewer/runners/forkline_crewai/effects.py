"""What is restored of a checkpoint of CrewAI, and the effects of that. Does not import the engine.

Restoring executes what a checkpoint names, so only listed fields are restored. Dropped are callbacks,
guardrails named by path, providers, MCP servers, knowledge and files to read or write, memories, training
files, execution contexts, executors, keys, headers, and where checkpoints are written or pruned. With an
entry point all of these come from the project's code, and only texts and values of the checkpoint are used.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forkline_guard
from forkline_runner import effects, project, resolving
from forkline_runner.effects import MAX_NAME, Effect, digest_of, value_effect
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import Request

Entity = dict[str, Any]
ToolCheck = Callable[[str], bool]
CREW = frozenset(
    """
    entity_type name process verbose cache id max_rpm planning tool_failure_policy checkpoint_inputs
    checkpoint_kickoff_event_id
    """.split()  # noqa: SIM905 - a list of words
)
TASK = frozenset(
    """
    name description expected_output async_execution output id markdown processed_by_agents used_tools
    tools_errors delegations prompt_context max_retries guardrail_max_retries retry_count
    tool_failure_policy start_time end_time allow_crewai_trigger_context checkpoint_original_description
    checkpoint_original_expected_output output_json output_pydantic response_model human_input
    """.split()  # noqa: SIM905 - a list of words
)
AGENT = frozenset(
    """
    entity_type id role goal backstory cache verbose max_rpm allow_delegation max_iter
    tool_failure_policy max_tokens max_execution_time use_system_prompt system_template prompt_template
    response_template respect_context_window use_better_compaction max_retry_limit multimodal
    inject_date date_format planning reasoning max_reasoning_attempts guardrail_max_retries
    checkpoint_kickoff_event_id
    """.split()  # noqa: SIM905 - a list of words
)
MODEL = frozenset(
    """
    llm_type model temperature top_p max_tokens max_completion_tokens stream seed frequency_penalty
    presence_penalty n provider prefer_upload is_litellm stop timeout max_retries logprobs top_logprobs
    reasoning_effort api
    """.split()  # noqa: SIM905 - a list of words
)
# Fields that are not restored, with the names that a person reads.
LOST = {
    "callback": "callbacks",
    "callbacks": "callbacks",
    "step_callback": "callbacks",
    "task_callback": "callbacks",
    "before_kickoff_callbacks": "callbacks",
    "after_kickoff_callbacks": "callbacks",
    "converter_cls": "converters",
    "guardrail": "guardrails",
    "guardrails": "guardrails",
    "mcps": "MCP servers",
    "apps": "platform apps",
    "knowledge": "knowledge",
    "knowledge_sources": "knowledge",
    "memory": "memory",
    "skills": "skills",
    "output_file": "output files",
    "output_log_file": "output files",
    "input_files": "input files",
    "trained_agents_file": "training files",
}
MADE_OF_FUNCTIONS = {"crewai.tools.base_tool.Tool"}
# The values of ``llm_type`` that choose a provider's own class, whatever the model's name says.
NATIVE = {"openai", "anthropic", "azure", "bedrock", "gemini"}
# Providers whose classes never follow OpenAI's variables.
WITH_OWN_ADDRESS = (NATIVE - {"openai"}) | {"openrouter", "deepseek", "cerebras", "dashscope", "deepinfra"}
DEFAULT_ADDRESSES = {"https://api.openai.com/v1", "https://api.openai.com/v1/"}
# The engine adds these to agents.
ENGINE_TOOLS = ("crewai.tools.agent_tools.", "crewai.tools.memory_tools.")
# Schemas come from the tool's class; a checkpoint must not name a function to call.
NOT_RESTORED = ("cache_function", "args_schema", "result_schema")
MAX_DEPTH = 50
SECRET_FIELDS = ("api_key", "apikey", "token", "secret", "password", "credential")


def clean_crew(
    crew: Entity, may_import: ToolCheck, environment: Mapping[str, str]
) -> tuple[Entity, list[str]]:
    """Return the allowed fields of a crew, and the names of what is dropped. Raises Refused."""
    lost = _lost(crew)
    agents, tasks = dicts_in(crew.get("agents")), dicts_in(crew.get("tasks"))
    clean = _only(crew, CREW)
    clean["agents"] = [clean_agent(agent, may_import, environment)[0] for agent in agents]
    clean["tasks"] = [_clean_task(task, may_import, environment) for task in tasks]
    for name in ("manager_llm", "function_calling_llm", "planning_llm"):
        clean[name] = clean_model(crew.get(name), environment)
    if isinstance(crew.get("manager_agent"), dict):
        # The engine adds a manager's tools.
        clean["manager_agent"] = clean_agent({**crew["manager_agent"], "tools": []}, may_import, environment)[
            0
        ]
    for member in (*agents, *tasks):
        lost += _lost(member)
    return clean, sorted(set(lost))


def clean_agent(
    agent: Entity, may_import: ToolCheck, environment: Mapping[str, str]
) -> tuple[Entity, list[str]]:
    """Return the allowed fields of an agent, and the names of what is dropped. Raises Refused."""
    clean = _only(agent, AGENT)
    clean["llm"] = clean_model(agent.get("llm"), environment)
    clean["function_calling_llm"] = clean_model(agent.get("function_calling_llm"), environment)
    clean["tools"] = _clean_tools(agent, may_import)
    # The engine restarts an interrupted step from its beginning: a stored executor would only add the
    # messages of another task.
    clean["agent_executor"] = None
    return clean, _lost(agent)


def clean_model(model: Any, environment: Mapping[str, str]) -> Entity | None:
    """Return a model without key and headers, at the environment's address. Raises Refused.

    The key comes from the project's environment: a checkpoint must not decide where that key is sent.
    """
    if isinstance(model, str) and model:
        return {"model": model}
    if not isinstance(model, dict) or not model.get("model"):
        return None
    clean = _only(model, MODEL)
    wanted = model.get("base_url") or model.get("api_base")
    names = address_names(provider_of(model))
    given = next((environment[name] for name in names if environment.get(name)), None)
    if given:
        clean["base_url"] = given
    elif wanted and wanted not in DEFAULT_ADDRESSES:
        raise Refused("crewai.model_address_unknown", address=wanted, variable=names[0])
    return clean


def provider_of(model: Any) -> str:
    """Return the provider of a model, such as ``openai``."""
    name = model if isinstance(model, str) else str(model.get("model") or "")
    given = "" if isinstance(model, str) else str(model.get("provider") or "")
    return given or (name.partition("/")[0] if "/" in name else _usual_provider(name))


def _usual_provider(name: str) -> str:
    """Return the provider that the engine chooses for a model's name without one."""
    starts = {"claude-": "anthropic", "anthropic.": "anthropic", "gemini-": "gemini", "gemma-": "gemini"}
    return next((provider for start, provider in starts.items() if name.lower().startswith(start)), "openai")


def providers_of(model: Any) -> list[str]:
    """Return every provider that a model may call: the class that it names decides as well."""
    native = str(model.get("llm_type") or "") if isinstance(model, dict) else ""
    return list(dict.fromkeys([provider_of(model), *([native] if native in NATIVE else [])]))


def address_names(provider: str) -> list[str]:
    """Return the environment variables for the address of this provider's models."""
    upper = provider.upper()
    own = [f"{upper}_BASE_URL", f"{upper}_API_BASE"]
    return own if provider in WITH_OWN_ADDRESS else [*own, "OPENAI_BASE_URL", "OPENAI_API_BASE"]


def clean_record(record: Any) -> Entity:
    """Return the recorded events without the agents, tools and crews that restoring them would build."""
    nodes = record.get("nodes") if isinstance(record, dict) else None
    clean = {}
    for identifier, node in (nodes or {}).items():
        if isinstance(node, dict) and isinstance(node.get("event"), dict):
            clean[identifier] = {"event": _clean_event(node["event"]), "edges": node.get("edges") or {}}
    return {"nodes": clean}


def _clean_event(event: Entity) -> Entity:
    built = {"agent", "crew", "tool_class"}
    if event.get("type") != "llm_call_started":
        built.add("tools")
    return {name: (None if name in built else value) for name, value in event.items()}


def _clean_task(task: Entity, may_import: ToolCheck, environment: Mapping[str, str]) -> Entity:
    clean = _only(task, TASK)
    agent = task.get("agent")
    clean["agent"] = clean_agent(agent, may_import, environment)[0] if isinstance(agent, dict) else None
    clean["tools"] = _clean_tools(task, may_import)
    return clean


def _clean_tools(owner: Entity, may_import: ToolCheck) -> list[Entity]:
    tools = []
    for tool in owner.get("tools") or []:
        kind = str(tool.get("tool_type") or "") if isinstance(tool, dict) else ""
        if kind.startswith(ENGINE_TOOLS):
            continue
        if kind in MADE_OF_FUNCTIONS:
            raise Refused("crewai.tool_is_function", tool=repr(tool.get("name")))
        if not may_import(kind):
            raise Refused("crewai.tool_not_in_project", tool=repr(kind or tool))
        tools.append(restored_fields(tool, may_import))
    return tools


def restored_fields(tool: Entity, may_import: ToolCheck) -> Entity:
    """Return the fields of a tool that are restored. Raises Refused for a forbidden tool in them."""
    return {
        name: _restored_value(value, may_import)
        for name, value in tool.items()
        if name not in NOT_RESTORED and not any(word in name.lower() for word in SECRET_FIELDS)
    }


def _restored_value(value: Any, may_import: ToolCheck, depth: int = 0) -> Any:
    """Return a value of a tool. The engine imports what ``tool_type`` names at any depth."""
    if depth > MAX_DEPTH:
        raise Refused("crewai.tool_not_in_project", tool=repr(value)[:200])
    if isinstance(value, list):
        return [_restored_value(item, may_import, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    unwanted: tuple[str, ...] = ("cache_function",)
    if "tool_type" in value:
        kind = value["tool_type"]
        if not isinstance(kind, str) or not may_import(kind):
            raise Refused("crewai.tool_not_in_project", tool=repr(kind))
        unwanted = NOT_RESTORED
    return {
        name: _restored_value(item, may_import, depth + 1)
        for name, item in value.items()
        if name not in unwanted
    }


def dicts_in(value: Any) -> list[Entity]:
    """Return the dictionaries in a list; nothing for what is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _only(entity: Entity, names: frozenset[str]) -> Entity:
    return {name: entity[name] for name in names if name in entity}


def _lost(entity: Entity) -> list[str]:
    return [text for name, text in LOST.items() if entity.get(name)]


def may_import(tool_type: str) -> bool:
    """Return whether a checkpoint may name this class: a tool of the engine, or a class of the project.

    Imports nothing. Modules of the standard library, and modules in a location, are not allowed.
    """
    module, _dot, name = tool_type.rpartition(".")
    top = module.partition(".")[0]
    if not name.isidentifier() or (top == "crewai" and ".tools." not in tool_type):
        return False  # the engine has no tools elsewhere
    try:
        files = resolving.files_of(module)
    except resolving.Unresolved:
        return False
    # The engine would build whatever else the module imports.
    if resolving.class_in_source(module, name) is None:
        return False
    return top in {"crewai", "crewai_tools"} or all(project.is_in_project(Path(file.path)) for file in files)


# The effects of a checkpoint. Finding them imports nothing.
#
# Only tools and models have effects, since everything else is dropped. With an entry point, and for a flow,
# they come from the project's own code, and the checkpoint has no effects.
#
# Every text, number and truth value of a tool is an effect, unless the code gives the same one to the same
# field of the class. It is accepted for this field of this class, next to the tool's other values.


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
        for path, value in effects.differing_values(module, name, fields, imported):
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
            is_planner = field == "planning_llm" and owner.get("planning") and "tasks" in owner
            if (isinstance(model, str) and model) or (isinstance(model, dict) and model.get("model")):
                yield model
            elif (field == "llm" and "role" in owner) or is_planner:
                yield default


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
