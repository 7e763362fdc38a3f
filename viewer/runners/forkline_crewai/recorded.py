"""Runs a crew, flow or agent of a project with recorded answers, for an exported test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from crewai import Agent, Crew
from crewai.flow.flow import Flow
from crewai.flow.persistence import FlowPersistence
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from forkline_runner.recorded import Message, Record, Replacements, entry_point, in_thread, replaced


def run(named: str, record: Record) -> dict[str, Any]:
    """Run the entry point, and return its outputs by name. No model and no tool is called."""
    made = entry_point(named)
    with replaced([*model_methods(record), *_tool_methods(record)]):
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


def model_methods(record: Record) -> Replacements:
    """Return what answers the calls of each model."""

    def call(self: Any, messages: Any, *_args: Any, **given: Any) -> Any:
        agent = str(getattr(given.get("from_agent"), "role", None) or "")
        answer = record.answer(list(_messages(messages)), str(getattr(self, "model", "")), agent)
        calls = []
        for one in answer["tools"]:
            arguments = one["arguments"]
            text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
            function = {"name": one["name"], "arguments": text}
            calls.append({"id": one["id"], "type": "function", "function": function})
        return calls or answer["text"]

    async def acall(self: Any, messages: Any, *args: Any, **given: Any) -> Any:
        return call(self, messages, *args, **given)

    return [(BaseLLM, {"call": call, "acall": acall})]


def _messages(messages: Any) -> Iterator[Message]:
    """Yield messages to a model, which are a text or in the form of a provider."""
    for one in [{"role": "user", "content": messages}] if isinstance(messages, str) else messages:
        content = one.get("content") or ""
        if not isinstance(content, str):
            texts = (part if isinstance(part, str) else part.get("text") for part in content)
            content = "\n".join(text for text in texts if isinstance(text, str) and text)
        yield str(one.get("role") or ""), content, list(_requested(one.get("tool_calls")))


def _requested(calls: Any) -> Iterator[tuple[str, Any]]:
    for one in calls or ():
        function = _fields(_fields(one).get("function") or one)
        if name := str(function.get("name") or ""):
            yield name, function.get("arguments", function.get("input"))


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else vars(value)


def _tool_methods(record: Record) -> Replacements:
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

    return [
        (BaseTool, {"run": use, "arun": ause}),
        (CrewStructuredTool, {"invoke": invoke, "ainvoke": ainvoke}),
        (FlowPersistence, {"save_state": save_state}),
    ]


def _result(record: Record, tool: str, arguments: Any) -> str:
    found = record.result(tool, arguments)
    if found["is_error"]:
        raise RuntimeError(found["result"])
    return str(found["result"])
