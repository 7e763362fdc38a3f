"""The offline model behaves as an OpenAI-compatible server does."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest
from offline_model.server import OfflineModel

from scripts.demo import start_model
from tests.waiting import wait_until

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
DRAFT = (
    "Current Task: Draft the article\n\nThree paragraphs on {topic}, for readers in {year}.\n\n"
    "This is the expected criteria for your final answer: an article\n\n"
    "This is the context you're working with:\n{context}\n\nProvide your complete response:"
)
TOOL = {"type": "function", "function": {"name": "search_the_archive", "parameters": {"type": "object"}}}


def post(model: OfflineModel, request: dict[str, Any]) -> bytes:
    data = json.dumps(request).encode()
    asked = urllib.request.Request(
        f"{model.url}/chat/completions", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=60) as response:
        body: bytes = response.read()
    return body


def ask(model: OfflineModel, prompt: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        post(model, {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": prompt}], **more})
    )
    return answer


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def draft(
    topic: str = "AI checkpoints", year: int = 2026, context: str = "- **arXiv**: 41 were read."
) -> str:
    return DRAFT.format(topic=topic, year=year, context=context)


def test_the_same_request_gets_the_same_answer(offline_model: OfflineModel) -> None:
    assert ask(offline_model, draft()) == ask(offline_model, draft())


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        (draft(topic="tea"), "Tea"),
        (draft(year=2030), "In 2030"),
        (draft(context="- **Me**: I edited this."), "I edited this"),
    ],
)
def test_an_edit_changes_the_answer(offline_model: OfflineModel, changed: str, shown: str) -> None:
    assert shown in text_of(ask(offline_model, changed))
    assert shown not in text_of(ask(offline_model, draft()))


def test_streamed_chunks_form_the_answer_and_end_with_usage(offline_model: OfflineModel) -> None:
    request = {"messages": [{"role": "user", "content": draft()}], "stream": True}
    lines = post(offline_model, request | {"stream_options": {"include_usage": True}}).decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]]
    whole = ask(offline_model, draft())
    assert len(pieces) > 5
    assert "".join(pieces) == text_of(whole)
    assert chunks[-1]["usage"] == whole["usage"]


def test_usage_counts_the_prompt_and_the_answer(offline_model: OfflineModel) -> None:
    short, long = ask(offline_model, draft()), ask(offline_model, draft(context="- " + "many words " * 200))
    assert long["usage"]["prompt_tokens"] > short["usage"]["prompt_tokens"] + 400
    for usage in (short["usage"], long["usage"]):
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_the_tool_is_called_once_for_each_source_before_the_answer(offline_model: OfflineModel) -> None:
    prompt = "Current Task: Research tea for 2026\n\nAsk the archive about each of these sources: ['A', 'B']"
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    asked = []
    for note in ("A says 12.", "B says 30."):
        answer = json.loads(post(offline_model, {"messages": messages, "tools": [TOOL]}))
        call = answer["choices"][0]["message"]["tool_calls"][0]
        assert answer["choices"][0]["finish_reason"] == "tool_calls"
        asked.append(json.loads(call["function"]["arguments"]))
        messages += [
            answer["choices"][0]["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": note},
        ]
    assert asked == [{"source": "A", "question": "tea"}, {"source": "B", "question": "tea"}]
    text = text_of(json.loads(post(offline_model, {"messages": messages, "tools": [TOOL]})))
    assert "A says 12." in text
    assert "B says 30." in text


def test_a_statement_is_confirmed_if_the_research_has_its_numbers(offline_model: OfflineModel) -> None:
    context = "## Research\n\n- **A**: 41 were read.\n\n---\n\n# Article\n\nOf 41 read, 9 held. 41 were read."
    prompt = f"Current Task: Fact-check the draft\n\nThis is the context you're working with:\n{context}"
    answer = json.loads(text_of(ask(offline_model, prompt, response_format={"type": "json_schema"})))
    assert [claim["holds"] for claim in answer["claims"]] == [False, True]
    assert answer["verdict"] == "1 of 2 statements hold."


def test_the_model_is_listed_and_requests_are_recorded(offline_model: OfflineModel) -> None:
    with urllib.request.urlopen(f"{offline_model.url}/models", timeout=60) as response:
        assert [entry["id"] for entry in json.load(response)["data"]] == ["gpt-4o-mini"]
    ask(offline_model, draft())
    assert [request["messages"][0]["content"] for request in offline_model.requests] == [draft()]


@pytest.mark.parametrize("body", ["[]", "{", '{"messages": [1]}'])
def test_an_invalid_request_is_refused_with_a_reason(offline_model: OfflineModel, body: str) -> None:
    asked = urllib.request.Request(f"{offline_model.url}/chat/completions", body.encode())
    with pytest.raises(urllib.error.HTTPError) as refusal, urllib.request.urlopen(asked, timeout=60):
        pass
    assert refusal.value.code == 400
    assert "Not a chat completion request" in json.load(refusal.value)["error"]["message"]


def test_the_model_ends_with_the_program_that_started_it() -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "offline_model", "--port", "0"],
        cwd=DEMO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout
    address = program.stdout.readline().strip()
    with urllib.request.urlopen(f"{address}/models", timeout=60) as response:
        assert response.status == 200
    # As if the parent had been killed.
    program.communicate(timeout=60)
    assert program.returncode == 0


def test_a_killed_model_leaves_no_zombie() -> None:
    model, _address = start_model()
    process = psutil.Process(model.pid)
    process.kill()
    wait_until(lambda: not process.is_running())
