"""Reads what a list of runs shows from a checkpoint's contents."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.planning.agent_prompt import agent_prompt


def run_inputs(contents: Contents) -> Mapping[str, Any]:
    """The inputs of a crew, the inputs or state of a flow, or the prompt of an agent."""
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        text = prompt[-1]["content"] if isinstance(prompt, list) and prompt else prompt
        return {"": text} if text else {}
    state = contents.flow_state or {}
    return contents.inputs or {name: value for name, value in state.items() if name != "id"}
