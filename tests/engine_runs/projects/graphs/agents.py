"""An agent with a tool, made by LangChain's ``create_agent`` or, before it, LangGraph's own."""

from typing import Any

from graphs import ran
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from models import note

try:
    from langchain.agents import create_agent
except ImportError:
    from langgraph.prebuilt import create_react_agent as create_agent


class FixedModel(BaseChatModel):
    """Calls the tool once, then answers with what it returned."""

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
            call = {"name": "weather", "args": {"town": str(last.content)}, "id": f"call-{len(messages)}"}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
async def weather(town: str) -> str:
    """Look up the weather of a town."""
    ran("weather")
    return f"sunny in {town}"


agent = create_agent(FixedModel(), [weather])
