"""Runs a graph of a project with recorded answers, for an exported test."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from forkline_runner.recorded import Record, entry_point, in_thread, own_methods, replaced

CONFIG: Any = {"configurable": {"thread_id": "recorded"}}


def run(named: str, record: Record) -> dict[str, Any]:
    """Run the turns of the thread, and return the state by channel. No model and no tool is called."""
    graph = entry_point(named)
    if not hasattr(graph, "ainvoke") and not hasattr(graph, "compile"):
        graph = graph()
    if hasattr(graph, "compile"):
        graph = graph.compile()
    # The thread is kept in memory.
    graph.checkpointer = InMemorySaver()
    with replaced(_replacements(record)):
        in_thread(asyncio.run, _turns(graph, record.inputs))
        state = graph.get_state(CONFIG).values
    return {name: _plain(value) for name, value in state.items()}


async def _turns(graph: Any, turns: list[dict[str, Any]]) -> None:
    for turn in turns:
        await graph.ainvoke(turn["input"], CONFIG)
        answers = {node: list(values) for node, values in turn["answers"].items()}
        while waiting := [
            (one, answers[task.name])
            for task in (await graph.aget_state(CONFIG)).tasks
            for one in task.interrupts
            if answers.get(task.name)
        ]:
            if len(waiting) == 1:
                given = waiting[0][1].pop(0)
            else:
                given = {one.id: left.pop(0) for one, left in waiting if left}
            await graph.ainvoke(Command(resume=given), CONFIG)


def _plain(value: Any) -> Any:
    """Return the role and text of messages, and other values as they are."""
    if isinstance(value, list) and value and all(isinstance(one, BaseMessage) for one in value):
        return [[_role(one), _text(one.content)] for one in value]
    return value


def _role(message: BaseMessage) -> str:
    return {"human": "user", "ai": "assistant"}.get(message.type) or str(message.type)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [one if isinstance(one, str) else one.get("text") for one in content]
    return "\n".join(one for one in parts if isinstance(one, str) and one)


def _replacements(record: Record) -> list[Any]:
    def generate(self: Any, messages: list[BaseMessage], *_args: Any, **_given: Any) -> ChatResult:
        answer = record.answer(_text(messages[-1].content) if messages else "")
        tools: Any = [
            {"name": one["name"], "args": one["arguments"], "id": one["id"]} for one in answer["tools"]
        ]
        message = AIMessage(answer["text"], tool_calls=tools, id=answer["id"] or None)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def agenerate(self: Any, messages: list[BaseMessage], *args: Any, **given: Any) -> ChatResult:
        return generate(self, messages, *args, **given)

    def use(self: Any, tool_input: Any, *_args: Any, **given: Any) -> Any:
        arguments = tool_input
        if isinstance(tool_input, dict):
            # The graph adds arguments that no model has written.
            known = getattr(self.tool_call_schema, "model_fields", tool_input)
            arguments = {name: value for name, value in tool_input.items() if name in known}
        found = record.result(self.name, arguments)
        if not given.get("tool_call_id"):
            return found["result"]
        status = "error" if found["is_error"] else "success"
        call: Any = given["tool_call_id"]
        return ToolMessage(found["result"], tool_call_id=call, name=self.name, status=status)

    async def ause(self: Any, tool_input: Any, *args: Any, **given: Any) -> Any:
        return use(self, tool_input, *args, **given)

    by_name = {"_generate": generate, "_agenerate": agenerate, "run": use, "arun": ause}
    methods = [*own_methods(BaseChatModel, "_generate", "_agenerate"), *own_methods(BaseTool, "run", "arun")]
    # A stream of one answer.
    whole = (BaseChatModel, "_should_stream", lambda *_args, **_given: False)
    return [*((cls, name, by_name[name]) for cls, name in methods), whole]
