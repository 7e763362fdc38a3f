"""The models of a run's agents: those that a person chose or replays, and those that cannot be created.

The engine creates the models of inner crews, managers, planners and feedback only when it needs them, which
may be after calls that were paid for. So models whose provider's package is not installed are found before.
"""

from __future__ import annotations

import ast
import copy
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from crewai import LLM, Agent, Crew
from crewai.utilities.agent_utils import get_tool_names, parse_tools, render_text_description_and_args

from forkline_crewai import components, entry_points
from forkline_crewai.components import can_produce, filled
from forkline_crewai.effects import dicts_in
from forkline_crewai.patches import recording, tasks
from forkline_runner import project
from forkline_runner.calls import Answer, messages_of, parameters_of, replay, tools_of
from forkline_runner.reporting import Refused, as_text

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request

# The key for all agents.
ALL = "*"
# Settings that a model's class derives from its name.
OF_THE_NAME = {"model", "provider", "llm_type", "is_litellm", "is_o1_model", "is_gpt4_model", "custom_openai"}
# Settings that mean the same to every provider, unlike keys and addresses.
OF_ANY_PROVIDER = {
    "temperature",
    "top_p",
    "max_tokens",
    "stream",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "timeout",
    "max_retries",
}
# Arguments and fields that name a model.
MODEL_FIELDS = {"llm", "model", "manager_llm", "planning_llm", "function_calling_llm", "chat_llm"}
MAX_BYTES = 256 * 1024
MAX_MODELS = 50
_YAML_MODEL = re.compile(r"^\s*(?:llm|function_calling_llm)\s*:\s*['\"]?([\w.\-]+/[\w./:\-]+)", re.MULTILINE)


def choose_for_crew(crew: Any, saved: Mapping[str, Any], request: Request) -> None:
    """Set the chosen models of the crew's agents, and of its manager if ALL is chosen. Raises Refused.

    An agent is named by its role in the checkpoint or in the project's code.
    """
    chosen = chosen_in(request)
    if chosen:
        _set_models(crew, chosen, _saved_roles(crew, saved))


def choose_for_new_crew(crew: Any, request: Request) -> None:
    """Set the chosen models of a new crew, as ``choose_for_crew`` does. Raises Refused.

    An agent is named by its role in the project's code, as a template or with the inputs of this or an
    earlier run.
    """
    chosen = chosen_in(request)
    if chosen:
        _set_models(crew, chosen, _new_roles(crew, chosen, request["inputs"]))


def choose_for_agent(agent: Any, saved: Mapping[str, Any], request: Request) -> None:
    """Set the chosen model of an agent without a crew. Raises Refused."""
    chosen = chosen_in(request)
    names = {ALL, str(agent.role).strip(), str(saved.get("role") or "").strip()}
    _refuse_unknown(chosen, names)
    for model in chosen.values():
        agent.llm = with_model(agent.llm, model)


def chosen_in(request: Request) -> dict[str, str]:
    """Return the chosen models by role."""
    options = request.get("options") or {}
    return {role.strip(): model for role, model in (options.get("models") or {}).items()}


def _set_models(crew: Any, chosen: Mapping[str, str], roles: Mapping[int, set[str]]) -> None:
    """Set each agent's model by its role, else by ALL. ``roles`` has more names of agents, by ``id()``."""
    found = set()
    for agent in _agents_of(crew):
        names = {str(agent.role).strip(), *roles.get(id(agent), set())}
        role = next((name for name in chosen if name in names), ALL if ALL in chosen else "")
        if role:
            found.add(role)
            agent.llm = with_model(agent.llm, chosen[role])
    _refuse_unknown(chosen, found)
    if ALL in chosen and crew.manager_llm is not None:
        crew.manager_llm = with_model(crew.manager_llm, chosen[ALL])


def _agents_of(crew: Any) -> Iterator[Any]:
    """Yield each agent that may be called, once."""
    seen = set()
    for agent in (*crew.agents, *(task.agent for task in crew.tasks), crew.manager_agent):
        if agent is not None and id(agent) not in seen:
            seen.add(id(agent))
            yield agent


def _saved_roles(crew: Any, saved: Mapping[str, Any]) -> dict[int, set[str]]:
    """Return the agents' roles in the checkpoint by ``id()`` of the agent, found through their tasks."""
    by_id = {str(agent.get("id")): agent for agent in dicts_in(saved.get("agents"))}
    tasks = {str(task.get("id")): task for task in saved.get("tasks") or []}
    roles: dict[int, set[str]] = {}
    for task in crew.tasks:
        agent = tasks.get(str(task.id), {}).get("agent")
        agent = agent if isinstance(agent, dict) else by_id.get(str(agent), {})
        roles.setdefault(id(task.agent), set()).add(str(agent.get("role") or "").strip())
    return roles


def _new_roles(crew: Any, chosen: Mapping[str, str], inputs: Mapping[str, Any]) -> dict[int, set[str]]:
    """Return the agents' names by ``id()`` of the agent. Raises Refused if a chosen name is ambiguous."""
    agents = list(_agents_of(crew))
    roles = {id(agent): {filled(str(agent.role), inputs).strip()} for agent in agents}
    known = {str(agent.role).strip() for agent in agents}.union(*roles.values())
    for name in chosen.keys() - known - {ALL}:
        fitting = [agent for agent in agents if can_produce(str(agent.role), name)]
        if len({agent.role for agent in fitting}) > 1:
            raise Refused("crewai.model_agent_ambiguous", name=name)
        for agent in fitting:
            roles[id(agent)].add(name)
    return roles


def _refuse_unknown(chosen: Mapping[str, str], found: set[str]) -> None:
    unknown = [role for role in chosen if role not in found]
    if unknown:
        raise Refused("crewai.model_agent_unknown", agent=unknown[0])


def with_model(former: Any, model: str, settings: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a model of this name with the former one's settings, and then with these.

    Raises Refused if it cannot be used.

    The key comes from the environment: another provider gets neither the former model's key nor its address.
    """
    is_own = not type(former).__module__.startswith("crewai.") and hasattr(former, "model")
    if is_own and not isinstance(former, str):
        # A class of the project: only it knows its settings.
        changed = copy.copy(former)
        for name, value in {**settings, "model": model}.items():
            setattr(changed, name, value)
        return changed
    try:
        made = LLM(model=model)
        return LLM(model=model, **{**_settings_for(made, former), **settings})
    except Exception as error:
        raise Refused("crewai.model_unusable", model=model, kind=type(error).__name__, error=error) from error


def _settings_for(made: Any, former: Any) -> dict[str, Any]:
    given = getattr(former, "model_fields_set", None) or set()
    if type(made) is type(former) and made.provider == former.provider:
        settings = {name: getattr(former, name) for name in given - OF_THE_NAME - {"additional_params"}}
        return {**settings, **dict(former.additional_params or {})}
    names = given & OF_ANY_PROVIDER & set(type(made).model_fields)
    return {name: getattr(former, name) for name in names}


def missing_models(made: Any) -> list[components.Component]:
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


# Warms the provider's prompt cache: a one-token call with each agent's system prompt, before the first task.
#
# Only on request. A call that fails causes a warning and does not stop the run.


MIN_AGENTS = 2
MAX_CALLS_AT_ONCE = 4
# After this time the run starts without waiting for the remaining calls.
MAX_SECONDS = 60
# No provider caches a shorter prefix.
MIN_SHARED_CHARACTERS = 1024
QUESTION = "Answer with one word: ready."
# The tokens of each warm-up call in this context; None in the context of the run's own calls.
USED: ContextVar[list[int] | None] = ContextVar("tokens used to warm the cache", default=None)


@dataclass(frozen=True)
class Probe:
    """One warm-up call: the agent's role, its model, and the system prompt to send."""

    role: str
    model: Any
    system: str


def before_first_task(crew: Any, request: Request, reporter: Reporter) -> None:
    """Warm the cache once the crew is ready to start its first task, if the request names a strategy."""
    strategy = (request.get("options") or {}).get("cache_warmup") or ""
    if not strategy:
        return
    tasks.call_before_first_task(crew, lambda: _warm(crew, strategy, reporter))
    recording.drop_warmup_events(USED)


def _warm(crew: Any, strategy: str, reporter: Reporter) -> None:
    """Make the calls, and report them."""
    try:
        probes = _probes_for(crew, [task for task in crew.tasks if task.output is None], reporter)
    except Exception as error:
        reporter.warn("crewai.cache_failed", kind=type(error).__name__, error=error)
        return
    if len(probes) < MIN_AGENTS:
        reporter.warn("crewai.cache_too_few_agents")
        return
    shared = os.path.commonprefix([probe.system for probe in probes])  # noqa: RUF071 - texts, no paths
    first: list[int | None] = []
    if strategy == "shared_prefix" and len(shared) >= MIN_SHARED_CHARACTERS:
        first = _send_all([Probe("", probes[0].model, shared)], 1, reporter)
    used = _send_all(probes, 1 if strategy == "sequential" else MAX_CALLS_AT_ONCE, reporter)
    tokens = sum(filter(None, [*first, *used]))
    reporter.write(
        "cache_warmed",
        agents=[probe.role for probe, spent in zip(probes, used, strict=True) if spent is not None],
        strategy=strategy,
        tokens=tokens,
        total_tokens=recording.count_tokens(tokens),
    )


def _send_all(probes: Sequence[Probe], at_once: int, reporter: Reporter) -> list[int | None]:
    """Make the calls, ``at_once`` in parallel. Return the tokens of each; None if it failed or timed out."""
    pool = ThreadPoolExecutor(at_once)
    calls = [pool.submit(_send, probe, reporter) for probe in probes]
    ended, late = wait(calls, timeout=MAX_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    if late:
        reporter.warn("crewai.cache_timed_out", seconds=MAX_SECONDS)
    return [call.result() if call in ended else None for call in calls]


def _send(probe: Probe, reporter: Reporter) -> int | None:
    """Make a call. Return its tokens, or None if it failed."""
    used: list[int] = []
    token = USED.set(used)
    try:
        messages = [
            _marked({"role": "system", "content": probe.system}),
            {"role": "user", "content": QUESTION},
        ]
        _with_one_token(probe.model).call(messages)
    except Exception as error:
        _warn_of_call(probe, error, reporter)
        return None
    finally:
        USED.reset(token)
    return sum(used)


def _warn_of_call(probe: Probe, error: Exception, reporter: Reporter) -> None:
    kind = type(error).__name__
    if probe.role:
        reporter.warn("crewai.cache_agent_failed", role=probe.role, kind=kind, error=error)
    else:
        reporter.warn("crewai.cache_shared_failed", kind=kind, error=error)


def _probes_for(crew: Any, tasks: Sequence[Any], reporter: Reporter) -> list[Probe]:
    """Return one probe for each agent that will be called, with the system prompt of its first call."""
    todo: dict[int, tuple[Any, list[Any]]] = {}
    for task in tasks:
        agent = crew._get_agent_to_use(task)
        if agent is not None and id(agent) not in todo:
            todo[id(agent)] = agent, crew._prepare_tools(agent, task, task.tools or agent.tools or [])
    if str(getattr(crew.process, "value", crew.process)) == "hierarchical":
        for agent in crew.agents:
            todo.setdefault(id(agent), (agent, list(agent.tools or [])))
    probes = []
    for agent, tools in todo.values():
        role = str(agent.role).strip()
        system = _system_prompt(agent, tools)
        if not type(agent.llm).__module__.startswith("crewai."):
            reporter.warn("crewai.cache_custom_model", role=role)
        elif not system:
            reporter.warn("crewai.cache_no_system_prompt", role=role)
        else:
            probes.append(Probe(role, agent.llm, system))
    return probes


def _system_prompt(agent: Any, tools: list[Any]) -> str:
    """Return the system prompt that the engine's executor will send; empty if it sends none."""
    if hasattr(agent, "_add_skill_loader_tool"):
        tools = agent._add_skill_loader_tool(list(tools), task=None)
    prompt = agent._build_execution_prompt(tools)[0]
    if not hasattr(prompt, "system"):
        return ""
    parsed = parse_tools(tools)
    names, described = get_tool_names(parsed), render_text_description_and_args(parsed)
    return str(prompt.system).replace("{tool_names}", names).replace("{tools}", described)


def _with_one_token(model: Any) -> Any:
    """Return a copy of the model that answers with one token."""
    short = copy.copy(model)
    by_completion = getattr(model, "max_completion_tokens", None) or getattr(model, "is_o1_model", False)
    if by_completion:
        short.max_tokens, short.max_completion_tokens = None, 1
    else:
        short.max_tokens = 1
    short.stream = False
    return short


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message marked as the end of the cached prefix, if this version of the engine does so."""
    try:
        from crewai.llms.cache import mark_cache_breakpoint
    except ImportError:
        return message
    marked: dict[str, Any] = mark_cache_breakpoint(message)
    return marked


# Replays a model call with CrewAI's models: those of the project's agents, or made from their names.


def replay_call(request: Request, reporter: Reporter) -> str:
    """Call the models, and report their answers. Return an empty result. Raises Refused before any call."""
    recording.report_events(reporter, {})
    return replay(request, reporter, partial(_client, request, _project_model(request)))


def _project_model(request: Request) -> Any:
    """Return the model of the agent that made the call, else the project's model of this name, or None."""
    wanted = request["replay"]
    found = [(str(agent.role), agent.llm) for agent in _agents(request)]
    for role, model in found:
        if wanted["agent"] and can_produce(role.strip(), wanted["agent"]):
            return model
    names = (model for _role, model in found if getattr(model, "model", "") == wanted["model"])
    return next(names, None)


def _agents(request: Request) -> list[Any]:
    """Return the agents of the entry point; none without one, and of a flow, which makes them as it runs."""
    if not request["entry_point"] or request["entity"] == "flow":
        return []
    if request["entity"] == "agent":
        return [entry_points.made_by(request["entry_point"], Agent, "agent")]
    return list(entry_points.made_by(request["entry_point"], Crew, "crew").agents)


def _client(request: Request, former: Any, name: str) -> Callable[[], Answer]:
    model = with_model(former, name, parameters_of(request))
    tools = tools_of(request) or None

    def send() -> Answer:
        # Without functions, the engine returns the tool calls of an answer and executes none.
        return _answer(model.call(messages_of(request), tools=tools, available_functions=None))

    return send


def _answer(value: Any) -> Answer:
    if isinstance(value, list):
        return Answer("", [_tool(one) for one in value])
    return Answer(as_text(value))


def _tool(call: Any) -> dict[str, Any]:
    """Return a tool call as any provider writes it."""
    function = _field(call, "function") or call
    arguments = _field(function, "arguments")
    return {
        "name": str(_field(function, "name") or ""),
        "arguments": _field(function, "input", "args") if arguments is None else arguments,
        "id": str(_field(call, "id", "toolUseId") or ""),
    }


def _field(value: Any, *names: str) -> Any:
    found = (value.get(name) if isinstance(value, Mapping) else getattr(value, name, None) for name in names)
    return next((one for one in found if one is not None), None)
