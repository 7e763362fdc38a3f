"""The model of the engine tests: the demo's offline model, with answers that are easy to recognise."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from offline_model.answers import Answer
from offline_model.server import OfflineModel

# Of the prompt and of the answer.
TOKENS = (7, 5)


class TestModel(OfflineModel):
    """The same request gets the same answer.

    ``calls_tools`` is how often it calls the first offered tool, each time with other ``tool_words``.
    """

    __test__ = False

    def __init__(self) -> None:
        super().__init__(answer=self.answer_to)
        self.calls_tools = 0

    def answer_to(self, request: dict[str, Any]) -> Answer:
        """Return ``words`` and a digest of the messages; a JSON object if the request asks for JSON."""
        if self.calls_tools and request.get("tools") and not _has_used_a_tool(request):
            tool = request["tools"][0]["function"]
            names = tool.get("parameters", {}).get("properties", {})
            calls = (json.dumps(dict.fromkeys(names, tool_words(one))) for one in range(self.calls_tools))
            return Answer(tool=tool["name"], calls=tuple(calls), tokens=TOKENS)
        asked = json.dumps(request["messages"], sort_keys=True)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        if request.get("response_format"):
            schema = request["response_format"].get("json_schema", {}).get("schema") or {}
            text = json.dumps(_fitting(schema, digest, schema.get("$defs", {})))
            return Answer(text=text, tokens=TOKENS)
        return Answer(text=f"words {digest}", tokens=TOKENS)

    def reset(self) -> None:
        super().reset()
        self.calls_tools = 0


def tool_words(number: int) -> str:
    """Return each argument of a call of a tool, by its number from 0 in the answer.

    The calls differ, because CrewAI's cache of tools may answer the second of two equal ones.
    """
    return f"words {number + 1}" if number else "words"


def _has_used_a_tool(request: dict[str, Any]) -> bool:
    return any(message["role"] == "tool" for message in request["messages"])


def _fitting(schema: dict[str, Any], digest: str, definitions: dict[str, Any]) -> Any:
    """Return a value that fits the schema, the same for the same digest."""
    if "$ref" in schema:
        return _fitting(definitions[schema["$ref"].rpartition("/")[2]], digest, definitions)
    if "anyOf" in schema:
        return _fitting(schema["anyOf"][-1], digest, definitions)
    if schema.get("type") == "array":
        return [_fitting(schema["items"], digest, definitions)]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: _fitting(part, digest, definitions) for name, part in properties.items()}
    plain: dict[str, Any] = {"integer": 3, "number": 0.5, "boolean": True, "null": None}
    return plain.get(schema.get("type", ""), f"fact {digest}")


@contextmanager
def model_server() -> Iterator[TestModel]:
    """Yield a running model, and stop it at the end."""
    model = TestModel()
    model.start()
    try:
        yield model
    finally:
        model.stop()
