"""Parses a request's messages into a prompt."""

import ast
import re
from dataclasses import dataclass
from typing import Any

TASK = re.compile(
    r"Current Task:\s*(.*?)\s*(?:This is the expected criteria|Provide your complete response|\Z)", re.S
)
CONTEXT = re.compile(
    r"This is the context you're working with:\s*(.*?)\s*(?:Provide your complete response:|\Z)", re.S
)
YEAR = re.compile(r"\b(?:19|20|21)\d\d\b")
ON_TOPIC = re.compile(r"\b(?:[Rr]esearch|[Oo]n|[Aa]bout) (.+?)(?:,| for\b| in \d| from\b|[.?!](?:\s|$)|\n|$)")
SOURCES = re.compile(r"sources: (\[.*?\]|[^.\n]*)")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request in plain words. ``notes`` are what its tools have answered so far, in order."""

    task: str
    context: str
    topic: str
    year: str
    sources: tuple[str, ...]
    tools: tuple[str, ...]
    notes: tuple[str, ...]
    wants_json: bool


def read_prompt(request: dict[str, Any]) -> Prompt:
    """The last user message's task and context, with the tools that were offered and called."""
    messages = request.get("messages") or []
    asked = next((text_of(message) for message in reversed(messages) if message.get("role") == "user"), "")
    if not TASK.search(asked):
        asked = next((text_of(message) for message in messages if TASK.search(text_of(message))), asked)
    task = found(TASK, asked) or asked.strip()
    return Prompt(
        task=task,
        context=found(CONTEXT, asked),
        topic=found(ON_TOPIC, task) or "the subject",
        year=(YEAR.search(task) or YEAR.search(asked) or [""])[0],
        sources=listed(found(SOURCES, task)),
        tools=tuple(tool["function"]["name"] for tool in request.get("tools") or [] if "function" in tool),
        notes=tuple(text_of(message) for message in messages if message.get("role") == "tool"),
        wants_json=(request.get("response_format") or {}).get("type") in {"json_schema", "json_object"},
    )


def text_of(message: dict[str, Any]) -> str:
    """A message's text, whether it is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return str(content)


def found(pattern: re.Pattern[str], text: str) -> str:
    """The pattern's first group, or nothing."""
    match = pattern.search(text)
    return match[1].strip() if match else ""


def listed(text: str) -> tuple[str, ...]:
    """Parse a list in a prompt: a Python literal, or separated by commas."""
    if text.startswith("["):
        try:
            return tuple(str(item) for item in ast.literal_eval(text))
        except (ValueError, SyntaxError):
            return ()
    return tuple(part.strip() for part in text.split(",") if part.strip())
