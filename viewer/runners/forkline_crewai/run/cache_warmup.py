"""Warms the provider's prompt cache: a one-token call with each agent's system prompt, before the first task.

It is asked for, and never stops a run: a call that fails is told, and no more.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import crewai.crew
from crewai.events.event_bus import crewai_event_bus
from crewai.utilities.agent_utils import get_tool_names, parse_tools, render_text_description_and_args

from forkline_crewai.report import progress
from forkline_runner.messages import gettext_noop as _

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import Request

FEWEST_AGENTS = 2
AT_ONCE = 4
# A run waits no longer for calls that are only there to make it faster.
MOST_SECONDS = 60
# A shorter beginning is kept by no provider.
FEWEST_SHARED_CHARACTERS = 1024
QUESTION = "Answer with one word: ready."
# The tokens that the calls of this context have used; None where a call is the run's own.
USED: ContextVar[list[int] | None] = ContextVar("tokens used to warm the cache", default=None)


@dataclass(frozen=True)
class Probe:
    """Whom it is for, the model that is asked, and the system prompt that it is sent."""

    role: str
    model: Any
    system: str


def before_first_task(crew: Any, request: Request, reporter: Reporter) -> None:
    """Have the cache warmed once the crew is ready to call its first task, if that was asked for."""
    strategy = (request.get("options") or {}).get("cache_warmup") or ""
    if not strategy:
        return
    prepare_task = crewai.crew.prepare_task_execution
    todo = [strategy]

    def warming_first(asked: Any, *rest: Any, **named: Any) -> Any:
        if asked is crew and todo:
            _warm(crew, todo.pop(), reporter)
        return prepare_task(asked, *rest, **named)

    crewai.crew.prepare_task_execution = warming_first
    _keep_out_of_the_record()


def _warm(crew: Any, strategy: str, reporter: Reporter) -> None:
    """Make the calls, and tell what they came to."""
    try:
        probes = _probes_for(crew, [task for task in crew.tasks if task.output is None], reporter)
    except Exception as error:
        reporter.warn(
            _("The prompt cache was not warmed: %(kind)s: %(error)s"), kind=type(error).__name__, error=error
        )
        return
    if len(probes) < FEWEST_AGENTS:
        reporter.warn(_("The prompt cache was not warmed: fewer than two agents are called."))
        return
    shared = os.path.commonprefix([probe.system for probe in probes])  # noqa: RUF071 - texts, no paths
    first: list[int | None] = []
    if strategy == "shared_prefix" and len(shared) >= FEWEST_SHARED_CHARACTERS:
        first = _sent_together([Probe("", probes[0].model, shared)], 1, reporter)
    used = _sent_together(probes, 1 if strategy == "sequential" else AT_ONCE, reporter)
    tokens = sum(filter(None, [*first, *used]))
    reporter.write(
        "cache_warmed",
        agents=[probe.role for probe, spent in zip(probes, used, strict=True) if spent is not None],
        strategy=strategy,
        tokens=tokens,
        total_tokens=progress.count(tokens),
    )


def _sent_together(probes: Sequence[Probe], at_once: int, reporter: Reporter) -> list[int | None]:
    """The tokens that each call has used; None where it failed, or took longer than a run waits for it."""
    pool = ThreadPoolExecutor(at_once)
    calls = [pool.submit(_sent, probe, reporter) for probe in probes]
    ended, late = wait(calls, timeout=MOST_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    if late:
        reporter.warn(
            _("The prompt cache was not warmed within %(seconds)s seconds: the run goes on."),
            seconds=MOST_SECONDS,
        )
    return [call.result() if call in ended else None for call in calls]


def _sent(probe: Probe, reporter: Reporter) -> int | None:
    """The tokens that this call has used; None where it failed."""
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
        reporter.warn(
            _("The prompt cache was not warmed for the agent %(role)r: %(kind)s: %(error)s"),
            role=probe.role,
            kind=kind,
            error=error,
        )
    else:
        reporter.warn(
            _("The prompt cache was not warmed for what the agents have in common: %(kind)s: %(error)s"),
            kind=kind,
            error=error,
        )


def _probes_for(crew: Any, tasks: Sequence[Any], reporter: Reporter) -> list[Probe]:
    """One for each agent that will be called, as its first call will be made."""
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
            reporter.warn(
                _("The prompt cache was not warmed for the agent %(role)r: its model is a class of its own."),
                role=role,
            )
        elif not system:
            reporter.warn(
                _("The prompt cache was not warmed for the agent %(role)r: it has no system prompt."),
                role=role,
            )
        else:
            probes.append(Probe(role, agent.llm, system))
    return probes


def _system_prompt(agent: Any, tools: list[Any]) -> str:
    """The system prompt as the engine's executor will send it; empty where it sends none."""
    if hasattr(agent, "_add_skill_loader_tool"):
        tools = agent._add_skill_loader_tool(list(tools), task=None)
    prompt = agent._build_execution_prompt(tools)[0]
    if not hasattr(prompt, "system"):
        return ""
    parsed = parse_tools(tools)
    names, described = get_tool_names(parsed), render_text_description_and_args(parsed)
    return str(prompt.system).replace("{tool_names}", names).replace("{tools}", described)


def _with_one_token(model: Any) -> Any:
    """The same model, which answers with one token."""
    short = copy.copy(model)
    by_completion = getattr(model, "max_completion_tokens", None) or getattr(model, "is_o1_model", False)
    if by_completion:
        short.max_tokens, short.max_completion_tokens = None, 1
    else:
        short.max_tokens = 1
    short.stream = False
    return short


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    """The message, marked as the end of what is to be kept, where this version of the engine does so."""
    try:
        from crewai.llms.cache import mark_cache_breakpoint
    except ImportError:
        return message
    marked: dict[str, Any] = mark_cache_breakpoint(message)
    return marked


def _keep_out_of_the_record() -> None:
    """Have these calls leave no events, which would look like work of the run's agents."""
    emit: Callable[..., Any] = crewai_event_bus.emit

    def emit_unless_ours(source: Any, event: Any) -> Any:
        used = USED.get()
        if used is None:
            return emit(source, event)
        if event.type == "llm_call_completed":
            usage: Mapping[str, Any] = getattr(event, "usage", None) or {}
            used.append(int(usage.get("total_tokens") or 0))
        return None

    crewai_event_bus.emit = emit_unless_ours
