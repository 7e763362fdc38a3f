"""An answer as the API returns it: one object, or the chunks of a stream."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

from offline_model.answers import Answer

MODEL = "gpt-4o-mini"
# The same for every answer: nothing in it depends on the clock.
CREATED = 1_700_000_000
WORDS_PER_CHUNK = 5


def completion_of(request: dict[str, Any], said: Answer) -> dict[str, Any]:
    """Return the answer as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.tool:
        message["tool_calls"] = tool_calls(request, said)
    choice = {"index": 0, "message": message, "finish_reason": finish_of(said)}
    return envelope(request, "chat.completion") | {"choices": [choice], "usage": usage_of(request, said)}


def chunks_of(request: dict[str, Any], said: Answer) -> Iterator[dict[str, Any]]:
    """Yield the answer a few words at a time, then its finish reason, then its usage if it was requested."""
    start = envelope(request, "chat.completion.chunk")
    if said.tool:
        yield start | {"choices": [choice_of({"role": "assistant", "tool_calls": tool_calls(request, said)})]}
    for position, words in enumerate(in_pieces(said.text)):
        role = {"role": "assistant"} if position == 0 else {}
        yield start | {"choices": [choice_of(role | {"content": words})]}
    yield start | {"choices": [choice_of({}, finish_of(said))]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield start | {"choices": [], "usage": usage_of(request, said)}


def in_pieces(text: str) -> list[str]:
    """Return the text cut after every fifth word. Joined, the pieces are the text."""
    words = text.split(" ")
    pieces = [" ".join(words[at : at + WORDS_PER_CHUNK]) for at in range(0, len(words), WORDS_PER_CHUNK)]
    return [piece + " " for piece in pieces[:-1]] + pieces[-1:] if text else []


def choice_of(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def finish_of(said: Answer) -> str:
    return "tool_calls" if said.tool else "stop"


def tool_calls(request: dict[str, Any], said: Answer) -> list[dict[str, Any]]:
    return [
        {
            "index": number,
            "id": f"call_{digest_of(request)}" + (f"_{number}" if number else ""),
            "type": "function",
            "function": {"name": said.tool, "arguments": arguments},
        }
        for number, arguments in enumerate(said.calls)
    ]


def envelope(request: dict[str, Any], kind: str) -> dict[str, Any]:
    model = request.get("model") or MODEL
    return {"id": f"chatcmpl-{digest_of(request)}", "object": kind, "created": CREATED, "model": model}


def digest_of(request: dict[str, Any]) -> str:
    """Return eight digits that follow from the conversation."""
    return f"{zlib.crc32(json.dumps(request.get('messages'), sort_keys=True).encode()):08x}"


def usage_of(request: dict[str, Any], said: Answer) -> dict[str, int]:
    """Return the tokens of the request and the answer: the answer's own, else four characters each."""
    if said.tokens:
        prompt, completion = said.tokens
    else:
        asked = sum(len(json.dumps(message)) for message in request.get("messages") or [])
        prompt, completion = -(-asked // 4), -(-len(said.text + said.tool + "".join(said.calls)) // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
