"""A graph whose node calls a named model with a tool."""

import json
from typing import Any

from chat import LoopbackModel
from graphs import State, ran
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, StateGraph


class NamedModel(LoopbackModel):
    """Sends its name and the options that it is bound to."""

    model_name: str = "loopback-1"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=tools, **options)

    def _stream(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        more = {**options, "stop": stop} if stop else options
        sent = {"model": self.model_name, "messages": convert_to_openai_messages(messages), **more}
        with self._sent(sent) as found:
            body = json.load(found)
        message, used = body["choices"][0]["message"], body["usage"]
        calls = [
            {"name": tool["name"], "args": json.loads(tool["arguments"]), "id": one["id"]}
            for one in message.get("tool_calls") or []
            for tool in [one["function"]]
        ]
        usage = {
            "input_tokens": used["prompt_tokens"],
            "output_tokens": used["completion_tokens"],
            "total_tokens": used["total_tokens"],
        }
        answer = AIMessage(message.get("content") or "", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def make_graph() -> Any:
    """A graph whose model only its node knows."""
    model = NamedModel()

    def write(state: State) -> State:
        ran("write")
        return {"notes": [str(model.invoke(f"Write about {state.get('topic')}.").content)]}

    graph = StateGraph(State)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    return graph.compile()


def make_graph_of_several() -> Any:
    """A graph with models whose names begin alike."""
    names = ("loopback", "loopback-1", "loopback-1-mini", "loopback-1", "loopback")
    models = [NamedModel(model_name=name) for name in names]
    graph = StateGraph(State)
    graph.add_node("write", lambda state: {"notes": [one.model_name for one in models]})
    graph.add_edge(START, "write")
    return graph.compile()
