"""A fake chat model that needs no network: the same messages always get the same answer."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

TOKENS_PER_WORD = 2


class OfflineChatModel(BaseChatModel):
    """Asks for the order once, and then answers with what the tool returned."""

    model_name: str = "offline-support"

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "OfflineChatModel":
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **options: Any,
    ) -> ChatResult:
        words = sum(len(str(message.content).split()) for message in messages)
        answer = _answer(messages)
        used = {"input_tokens": words * TOKENS_PER_WORD, "output_tokens": 20}
        answer.usage_metadata = {**used, "total_tokens": used["input_tokens"] + 20}  # type: ignore[typeddict-item]
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _answer(messages: list[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(f"I have found your order. {last.content}")
    call = {"name": "find_order", "args": {"text": str(last.content)}, "id": f"call-{len(messages)}"}
    return AIMessage("", tool_calls=[call])
