"""Runs a crew, flow or agent of a project with recorded answers, for an exported test."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import crewai.llms.providers
from crewai import Agent, Crew
from crewai.flow.flow import Flow
from crewai.flow.persistence import FlowPersistence
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from forkline_runner.recorded import Record, entry_point, in_thread, own_methods, replaced


def run(named: str, record: Record) -> dict[str, Any]:
    """Run the entry point, and return its outputs by name. No model and no tool is called."""
    made = entry_point(named)
    for module in pkgutil.walk_packages(crewai.llms.providers.__path__, "crewai.llms.providers."):
        try:
            importlib.import_module(module.name)
        except ImportError:
            # The package of this provider is not installed.
            continue
    with replaced(_replacements(record)):
        if not isinstance(made, Crew | Agent | Flow):
            made = made()
        made = made.crew() if not hasattr(made, "kickoff") else made
        # A run writes no checkpoint.
        for one in (made, *getattr(made, "agents", ())):
            if hasattr(one, "checkpoint"):
                one.checkpoint = None
        if isinstance(made, Agent):
            return {"output": str(in_thread(made.kickoff, record.inputs["messages"]).raw)}
        result = in_thread(made.kickoff, record.inputs or None)
        if isinstance(made, Crew):
            return {f"task {number}": one.raw for number, one in enumerate(result.tasks_output, 1)}
        state = made.state
        return dict(state) if isinstance(state, dict) else dict(state.model_dump(mode="json"))


def _replacements(record: Record) -> list[Any]:
    def call(self: Any, messages: Any, *_args: Any, **_given: Any) -> Any:
        last = messages if isinstance(messages, str) else messages[-1].get("content")
        answer = record.answer(last if isinstance(last, str) else json.dumps(last))
        calls = []
        for one in answer["tools"]:
            arguments = one["arguments"]
            text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
            function = {"name": one["name"], "arguments": text}
            calls.append({"id": one["id"], "type": "function", "function": function})
        return calls or answer["text"]

    async def acall(self: Any, messages: Any, *args: Any, **given: Any) -> Any:
        return call(self, messages, *args, **given)

    def use(self: Any, *args: Any, **given: Any) -> Any:
        names = getattr(getattr(self, "args_schema", None), "model_fields", {})
        return _result(record, self.name, {**dict(zip(names, args, strict=False)), **given})

    async def ause(self: Any, *args: Any, **given: Any) -> Any:
        return use(self, *args, **given)

    def invoke(self: Any, input: Any, *_args: Any, **_given: Any) -> Any:
        return _result(record, self.name, input)

    async def ainvoke(self: Any, input: Any, *_args: Any, **_given: Any) -> Any:
        return _result(record, self.name, input)

    def save_state(*_args: Any, **_given: Any) -> None:
        """Store no state of a flow."""

    by_name = {"call": call, "acall": acall, "run": use, "arun": ause, "save_state": save_state}
    methods = [*own_methods(BaseLLM, "call", "acall"), *own_methods(BaseTool, "run", "arun")]
    methods += own_methods(FlowPersistence, "save_state")
    tool = [(CrewStructuredTool, "invoke", invoke), (CrewStructuredTool, "ainvoke", ainvoke)]
    return [*((cls, name, by_name[name]) for cls, name in methods), *tool]


def _result(record: Record, tool: str, arguments: Any) -> str:
    found = record.result(tool, arguments)
    if found["is_error"]:
        raise RuntimeError(found["result"])
    return str(found["result"])
