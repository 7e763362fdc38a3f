"""Python that flow.yaml names, and a function that makes the same flow."""

from pathlib import Path
from typing import Any

from crewai import LLM
from crewai.flow.flow import Flow


def ask(flow: Flow[Any], question: str) -> str:
    return str(LLM(model="openai/gpt-4o-mini").call(question))


def outline(flow: Flow[Any], topic: str) -> dict[str, Any]:
    return {"text": ask(flow, f"Outline {topic}"), "words": "3 words"}


def make_flow() -> Flow[Any]:
    return Flow.from_declaration(path=Path(__file__).with_name("flow.yaml"))
