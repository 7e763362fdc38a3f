"""Selects what is restored of a checkpoint. Does not import the engine.

Restoring executes what a checkpoint names, so only listed fields are restored. Dropped are callbacks,
guardrails named by path, providers, MCP servers, knowledge and files to read or write, memories, training
files, execution contexts, executors, keys, headers, and where checkpoints are written or pruned. With an
entry point all of these come from the project's code, and only texts and values of the checkpoint are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forkline_runner import project, resolving
from forkline_runner.messages import Refused

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
