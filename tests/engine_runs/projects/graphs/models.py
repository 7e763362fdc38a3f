"""A model that notes what it is sent, for a comparison of two runs."""

import json
import os
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult


def note(messages: list[BaseMessage]) -> None:
    """Add a line to the file that SENT_FILE names, if there is one."""
    if path := os.environ.get("SENT_FILE"):
        with open(path, "a") as file:
            file.write(json.dumps([[one.type, str(one.content)] for one in messages]) + "\n")


class EchoModel(BaseChatModel):
    """Answers with the last message."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        note(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(str(messages[-1].content)))])


def asked(name: str, state: Any) -> None:
    """Send a model the whole state, if what it is sent is noted."""
    if "SENT_FILE" in os.environ:
        known = " | ".join(str(one) for one in state.get("notes") or [])
        EchoModel().invoke([SystemMessage(f"{name} on {state.get('topic')}"), HumanMessage(known)])
