"""Runs a graph of a project with recorded answers, for an exported test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from forkline_runner.recorded import Message, Record, Replacements, entry_point, in_thread, replaced

# The fields of a model that hold its name.
NAME_FIELDS = ("model_name", "model", "model_id")
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
    with replaced([*model_methods(record), *_tool_methods(record)]):
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
        return [[_role(one), text_of(one.content)] for one in value]
    return value


def _role(message: BaseMessage) -> str:
    names = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
    return names.get(message.type) or str(message.type)


def text_of(content: Any) -> str:
    """Return the text of a message's content, without parts such as images."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [one if isinstance(one, str) else one.get("text") for one in parts]
    return "\n".join(one for one in texts if isinstance(one, str) and one)


def model_methods(record: Record) -> Replacements:
    """Return what answers the calls of each chat model. A stream is one answer."""

    def generate(
        self: Any, messages: list[BaseMessage], _stop: Any = None, run_manager: Any = None, **_given: Any
    ) -> ChatResult:
        agent = str((getattr(run_manager, "metadata", None) or {}).get("langgraph_node") or "")
        answer = record.answer(_messages(messages), name_of(self), agent)
        tools: Any = [
            {"name": one["name"], "args": one["arguments"], "id": one["id"]} for one in answer["tools"]
        ]
        message = AIMessage(answer["text"], tool_calls=tools, id=answer["id"] or None)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def agenerate(self: Any, messages: list[BaseMessage], *args: Any, **given: Any) -> ChatResult:
        return generate(self, messages, *args, **given)

    def stream(self: Any, messages: list[BaseMessage], *args: Any, **given: Any) -> Iterator[Any]:
        answer: Any = generate(self, messages, *args, **given).generations[0].message
        tools: Any = [
            {"name": one["name"], "args": json.dumps(one["args"]), "id": one["id"], "index": index}
            for index, one in enumerate(answer.tool_calls)
        ]
        chunk = AIMessageChunk(answer.content, tool_call_chunks=tools, id=answer.id)
        yield ChatGenerationChunk(message=chunk)

    async def astream(self: Any, *args: Any, **given: Any) -> AsyncIterator[Any]:
        for chunk in stream(self, *args, **given):
            yield chunk

    # What providers write, which code and newer ways of streaming call without the others.
    methods: dict[str, Any] = {"_generate": generate, "_agenerate": agenerate}
    methods |= {"_stream": stream, "_astream": astream}
    methods |= dict.fromkeys(("_stream_chat_model_events", "_astream_chat_model_events"))
    methods |= {"_generate_with_cache": generate, "_agenerate_with_cache": agenerate}
    return [(BaseChatModel, {**methods, "_should_stream": lambda *_args, **_given: False})]


def name_of(model: BaseChatModel) -> str:
    """Return the name of a model; empty if it has none."""
    return next((found for one in NAME_FIELDS if isinstance(found := getattr(model, one, None), str)), "")


def _messages(messages: Iterable[BaseMessage]) -> list[Message]:
    """Return the messages of the conversation, without the prompts of the system, which are not recorded."""
    return [
        (
            _role(one),
            text_of(one.content),
            [(call["name"], call["args"]) for call in getattr(one, "tool_calls", None) or ()],
        )
        for one in messages
        if one.type != "system"
    ]


def _tool_methods(record: Record) -> Replacements:
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

    return [(BaseTool, {"run": use, "arun": ause})]
