"""Gives agents the models that a person chose for this run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crewai import LLM

from forkline_crewai.run.interpolation import filled, may_become
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from viewer.jobs.spool import Request

# Stands for every agent.
ALL = "*"
# What a model's class works out of its name.
OF_THE_NAME = {"model", "provider", "llm_type", "is_litellm", "is_o1_model", "is_gpt4_model", "custom_openai"}
# What means the same to every provider. Keys and addresses do not.
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


def choose_for_crew(crew: Any, saved: Mapping[str, Any], request: Request) -> None:
    """Put the chosen models into the crew's agents, and into its manager where all are meant. Raises Refused.

    An agent is named by its role, as the checkpoint or as the project's code has it.
    """
    chosen = chosen_in(request)
    if chosen:
        _put_into(crew, chosen, _saved_roles(crew, saved))


def choose_for_new_crew(crew: Any, request: Request) -> None:
    """Put the chosen models into a crew that begins, as ``choose_for_crew`` does. Raises Refused.

    An agent is named by its role as the project's code has it, as the inputs fill it, or as an earlier
    run's inputs did.
    """
    chosen = chosen_in(request)
    if chosen:
        _put_into(crew, chosen, _new_roles(crew, chosen, request["inputs"]))


def _put_into(crew: Any, chosen: Mapping[str, str], roles: Mapping[int, set[str]]) -> None:
    """Give each agent the model of its role, or of all. ``roles`` are an agent's other names."""
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


def choose_for_agent(agent: Any, saved: Mapping[str, Any], request: Request) -> None:
    """Put the chosen model into a lone agent. Raises Refused."""
    chosen = chosen_in(request)
    names = {ALL, str(agent.role).strip(), str(saved.get("role") or "").strip()}
    _refuse_unknown(chosen, names)
    for model in chosen.values():
        agent.llm = with_model(agent.llm, model)


def chosen_in(request: Request) -> dict[str, str]:
    """The chosen models by role."""
    options = request.get("options") or {}
    return {role.strip(): model for role, model in (options.get("models") or {}).items()}


def with_model(former: Any, model: str) -> Any:
    """A model of this name with the former one's settings. Raises Refused where the engine knows none such.

    Its key is the environment's: to another provider neither the former key nor its address goes along.
    """
    is_own = not type(former).__module__.startswith("crewai.") and hasattr(former, "model")
    if is_own and not isinstance(former, str):
        # Somebody's own way to a model: it alone knows what else belongs to it.
        changed = copy.copy(former)
        changed.model = model
        return changed
    try:
        made = LLM(model=model)
        return LLM(model=model, **_settings_for(made, former))
    except Exception as error:
        raise Refused(
            _("The model %(model)r cannot be used here: %(kind)s: %(error)s"),
            model=model,
            kind=type(error).__name__,
            error=error,
        ) from error


def _settings_for(made: Any, former: Any) -> dict[str, Any]:
    given = getattr(former, "model_fields_set", None) or set()
    if type(made) is type(former) and made.provider == former.provider:
        settings = {name: getattr(former, name) for name in given - OF_THE_NAME - {"additional_params"}}
        return {**settings, **dict(former.additional_params or {})}
    names = given & OF_ANY_PROVIDER & set(type(made).model_fields)
    return {name: getattr(former, name) for name in names}


def _agents_of(crew: Any) -> Iterator[Any]:
    """Each agent that may be called, once."""
    seen = set()
    for agent in (*crew.agents, *(task.agent for task in crew.tasks), crew.manager_agent):
        if agent is not None and id(agent) not in seen:
            seen.add(id(agent))
            yield agent


def _saved_roles(crew: Any, saved: Mapping[str, Any]) -> dict[int, set[str]]:
    """What the checkpoint calls the agents, by the tasks that they have in both."""
    by_id = {str(agent.get("id")): agent for agent in saved.get("agents") or [] if isinstance(agent, dict)}
    tasks = {str(task.get("id")): task for task in saved.get("tasks") or []}
    roles: dict[int, set[str]] = {}
    for task in crew.tasks:
        agent = tasks.get(str(task.id), {}).get("agent")
        agent = agent if isinstance(agent, dict) else by_id.get(str(agent), {})
        roles.setdefault(id(task.agent), set()).add(str(agent.get("role") or "").strip())
    return roles


def _new_roles(crew: Any, chosen: Mapping[str, str], inputs: Mapping[str, Any]) -> dict[int, set[str]]:
    """What a person may call the agents. Raises Refused where a name could be that of several."""
    agents = list(_agents_of(crew))
    roles = {id(agent): {filled(str(agent.role), inputs).strip()} for agent in agents}
    known = {str(agent.role).strip() for agent in agents}.union(*roles.values())
    for name in chosen.keys() - known - {ALL}:
        fitting = [agent for agent in agents if may_become(str(agent.role).strip(), name)]
        if len({agent.role for agent in fitting}) > 1:
            raise Refused(
                _("A model was chosen for the agent %(name)r, and several could be meant."), name=name
            )
        for agent in fitting:
            roles[id(agent)].add(name)
    return roles


def _refuse_unknown(chosen: Mapping[str, str], found: set[str]) -> None:
    unknown = [role for role in chosen if role not in found]
    if unknown:
        raise Refused(
            _("A model was chosen for the agent %(agent)r, whom nothing here has. Choose again."),
            agent=unknown[0],
        )
