"""A graph whose node calls a model on loopback, which streams its answer."""

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

from graphs import State, node, ran
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, StateGraph

ROLES = {"human": "user", "ai": "assistant", "system": "system"}


class LoopbackModel(BaseChatModel):
    """OpenAI's API, without its client."""

    @property
    def _llm_type(self) -> str:
        return "loopback"

    def _opened(self, messages: list[BaseMessage], **more: Any) -> Any:
        asked = [{"role": ROLES[one.type], "content": one.content} for one in messages]
        return self._sent({"model": "offline", "messages": asked, **more})

    def _sent(self, request: dict[str, Any]) -> Any:
        body = json.dumps(request).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer offline"}
        return urlopen(Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with self._opened(messages, stream=True, stream_options={"include_usage": True}) as answer:
            for line in answer:
                text = line.decode().removeprefix("data: ").strip()
                if not text or text == "[DONE]":
                    continue
                part = json.loads(text)
                delta = part["choices"][0]["delta"].get("content") or "" if part["choices"] else ""
                used = part.get("usage") or {}
                usage = (
                    {
                        "input_tokens": used["prompt_tokens"],
                        "output_tokens": used["completion_tokens"],
                        "total_tokens": used["total_tokens"],
                    }
                    if used
                    else None
                )
                chunk = ChatGenerationChunk(message=AIMessageChunk(delta, usage_metadata=usage))
                if run_manager and delta:
                    run_manager.on_llm_new_token(delta, chunk=chunk)
                yield chunk

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        with self._opened(messages) as answer:
            text = json.load(answer)["choices"][0]["message"]["content"]
        return ChatResult(generations=[ChatGeneration(message=AIMessageChunk(text))])


def write(state: State) -> State:
    ran("write")
    return {"notes": [str(LoopbackModel().invoke(f"Write about {state.get('topic')}.").content)]}


async def awrite(state: State) -> State:
    ran("write")
    return {"notes": [str((await LoopbackModel().ainvoke(f"Write about {state.get('topic')}.")).content)]}


def chat_graph(writing: Any) -> StateGraph:
    """``write``, then ``last``."""
    graph = StateGraph(State)
    graph.add_node("write", writing)
    graph.add_node("last", node("last"))
    graph.add_edge(START, "write")
    graph.add_edge("write", "last")
    return graph


chat, achat = chat_graph(write).compile(), chat_graph(awrite).compile()
