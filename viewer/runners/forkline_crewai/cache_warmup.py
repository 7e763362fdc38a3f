"""Warms the provider's prompt cache: a one-token call with each agent's system prompt, before the first task.

Only on request. A call that fails causes a warning and does not stop the run.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crewai.utilities.agent_utils import get_tool_names, parse_tools, render_text_description_and_args

from forkline_crewai import reporting
from forkline_crewai.patches import recording, tasks

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

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
        total_tokens=reporting.count_tokens(tokens),
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
