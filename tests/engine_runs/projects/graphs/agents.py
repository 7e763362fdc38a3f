"""An agent with a tool, made by LangChain's ``create_agent`` or, before it, LangGraph's own."""

import json
from typing import Any

from graphs import ran
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, MessagesState, StateGraph
from models import note

try:
    from langchain.agents import create_agent
except ImportError:
    from langgraph.prebuilt import create_react_agent as create_agent


class FixedModel(BaseChatModel):
    """Calls the tool once, then answers with what it returned. Calls ``tide`` as well, of a second town."""

    @property
    def _llm_type(self) -> str:
        return "fixed"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        ran("model")
        note(messages)
        last = messages[-1]
        if isinstance(last, ToolMessage):
            answer = AIMessage(f"It is {last.content}.")
        else:
            asked = zip(("weather", "tide"), str(last.content).split(" and "), strict=False)
            calls = [
                {"name": name, "args": {"town": town}, "id": f"{name}-{len(messages)}"}
                for name, town in asked
            ]
            answer = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class NamedModel(FixedModel):
    """Reports its name, as the models of providers do."""

    def _generate(self, *arguments: Any, **options: Any) -> ChatResult:
        result = super()._generate(*arguments, **options)
        result.generations[0].message.response_metadata = {"model_name": "named"}
        return result


@tool
async def weather(town: str) -> str:
    """Look up the weather of a town."""
    ran("weather")
    return f"sunny in {town}"


@tool("weather")
def weather_at_once(town: str) -> str:
    """Look up the weather of a town."""
    ran("weather")
    return f"sunny in {town}"


@tool
def tide(town: str) -> str:
    """Look up the tide of a town."""
    ran("tide")
    return f"high in {town}"


def stream(state: MessagesState) -> dict[str, Any]:
    """Call the tool, and answer with what it returned: streams from a model that is defined now."""

    class LateModel(FixedModel):
        """Any other model, which streams."""

        def _stream(self, *arguments: Any, **options: Any) -> Any:
            answer = self._generate(*arguments, **options).generations[0].message
            calls = [
                {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
                for index, call in enumerate(answer.tool_calls)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(answer.content, tool_call_chunks=calls))

    model = LateModel()
    # Newer versions stream events, which come from the model's own method.
    is_newer = hasattr(model, "_chat_model_stream_v3")
    sent = state["messages"]
    first = model.stream_events(sent, version="v3").output if is_newer else next(model.stream(sent))
    called = first.tool_calls[0]
    result = ToolMessage(tide.invoke(called["args"]), tool_call_id=called["id"], name="tide")
    second = model._generate([*sent, first, result]).generations[0].message
    return {"messages": [first, result, second]}


async def delegate(state: MessagesState) -> dict[str, Any]:
    """Let the agent answer, and return only its last message."""
    found = await create_agent(NamedModel(), [weather]).ainvoke({"messages": state["messages"][:1]})
    return {"messages": [AIMessage(f"Says: {found['messages'][-1].content}")]}


TOOLS = {"tide": tide}


def book(state: MessagesState) -> dict[str, Any]:
    """Call a tool by its name."""
    return {"messages": [AIMessage(TOOLS[name].invoke({"town": "Oslo"})) for name in TOOLS]}


streaming = StateGraph(MessagesState).add_node(stream).set_entry_point("stream").compile()
agent = create_agent(FixedModel(), [weather])
synchronous = create_agent(FixedModel(), [weather_at_once])
delegating = StateGraph(MessagesState).add_node("delegate", delegate).set_entry_point("delegate").compile()
booking = StateGraph(MessagesState).add_node("book", book).set_entry_point("book").add_edge("book", "agent")
booking = booking.add_node("agent", agent).add_edge("agent", END).compile()
both = create_agent(FixedModel(), [weather, tide])
# As the adapter of MCP servers has what they declare of their tools.
reading = create_agent(FixedModel(), [weather.model_copy(update={"metadata": {"readOnlyHint": True}})])
