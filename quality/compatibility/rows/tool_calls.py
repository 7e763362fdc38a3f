"""Calls of tools that a fork repeats: answered from the record, asked about, or refused in a dry run."""

import json
from dataclasses import dataclass
from typing import Any

from quality.compatibility.rows import Play, row
from quality.compatibility.rows.crews import recorded_after
from quality.compatibility.rows.flows import recorded_after_method
from quality.compatibility.sandbox import Sandbox, holds, same
from tests.engine_runs.model import tool_words
from tests.engine_runs.runs import Ended, plan_for, request_for, saved_in
from viewer.engines import engine_named
from viewer.engines.plan import Edits
from viewer.engines.recorded_calls import SpanSource, recorded_answer

RESULT, EDITED = "as recorded", "other"


@dataclass(frozen=True)
class Tool:
    """A tool of a crew: its name, what the model calls it with, and the mark of a call with words."""

    entry_point: str
    name: str
    arguments: dict[str, str]
    mark: str


TOOLS = {
    "a class": Tool("press_parts:with_class_tool", "mark_archive", {"words": "words"}, "class tool"),
    "a function": Tool("press_parts:with_function_tool", "count_words", {"text": "words"}, "function tool"),
    # Events have the name that CrewAI makes of MarkArchive «of years» that have long been….
    "a class with another name for models": Tool(
        "press_tools:with_renamed_tool",
        "mark_archive_of_years_that_have_long_been_forgotten_tha_d3f3807f",
        {"words": "words"},
        "class tool",
    ),
    "an asynchronous class": Tool(
        "press_tools:with_waiting_tool", "wait_archive", {"words": "words"}, "asynchronous tool"
    ),
}
SERVER = Tool("press_tools:with_server", "find_words", {"words": "words"}, "server tool")
READ_ONLY_SERVER = Tool("press_tools:with_read_only_server", "", {}, "server tool")
DELEGATION = Tool(
    "press_tools:with_delegation",
    "delegate_work_to_coworker",
    dict.fromkeys(("task", "context", "coworker"), "words"),
    "",
)


def fork(sandbox: Sandbox, tool: Tool, **options: Any) -> dict[str, Any]:
    """Return a fork after two tasks, whose writer calls the tool in each task that offers it."""
    sandbox.model.calls_tools = 1
    location, start, _before = recorded_after(sandbox, "simple", 2)
    request = request_for(start, location, entry_point=tool.entry_point)
    return {**request, "options": {"tools": decided(tool, **options)}}


def decided(tool: Tool, **options: Any) -> dict[str, Any]:
    """Return what decides about calls: two were recorded."""
    recorded = [{"tool": tool.name, "arguments": tool.arguments, "result": RESULT}] * 2
    return {"choices": {}, "recorded": recorded, "is_known": True, "dry_run": False, **options}


def decisions(run: Ended) -> set[tuple[str, bool]]:
    """Return what was decided, and whether a person was asked."""
    return {(line["decision"], line["asked"]) for line in run.of("tool_decided")}


def results(sandbox: Sandbox) -> list[str]:
    """Return the results of tools that the model was sent."""
    messages = [message for request in sandbox.model.requests for message in request["messages"]]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def answered_from_the_record(tool: Tool) -> Play:
    def play(sandbox: Sandbox) -> None:
        run = sandbox.completed(fork(sandbox, tool, choices={tool.name: "recorded"}))
        same("decisions", decisions(run), {("recorded", False)})
        same("results that the model was sent", set(results(sandbox)), {RESULT})
        same("called", sandbox.traced(), [])

    return play


def asked_with_other_arguments(tool: Tool, **options: Any) -> Play:
    def play(sandbox: Sandbox) -> None:
        edited = json.dumps(dict.fromkeys(tool.arguments, EDITED))
        traces = {"PRESS_TRACE": str(sandbox.traces)}
        run = sandbox.answered(fork(sandbox, tool, **options), edited, edited, **traces)
        same("decisions", decisions(run), {("call", True)})
        same("called", set(sandbox.traced()), {f"{tool.mark} {EDITED}"})

    return play


for name, tool in TOOLS.items():
    row("tool calls", f"{name}, from the record")(answered_from_the_record(tool))
    row("tool calls", f"{name}, asked, with other arguments")(asked_with_other_arguments(tool))
# CrewAI names these tools by the path of the server's program, so what is asked about is every tool.
row("tool calls", "an MCP server, asked, with other arguments")(
    asked_with_other_arguments(SERVER, recorded=[], is_known=False)
)


@row("tool calls", "an MCP server, declared to be read-only")
def read_only(sandbox: Sandbox) -> None:
    run = sandbox.completed(fork(sandbox, READ_ONLY_SERVER, recorded=[], is_known=False))
    same("decisions", decisions(run), {("call", False)})
    same("called", set(sandbox.traced()), {"server tool words"})


row("tool calls", "delegation, from the record")(answered_from_the_record(DELEGATION))


@row("tool calls", "delegation, asked, with other arguments")
def delegation(sandbox: Sandbox) -> None:
    edited = json.dumps({"task": "Weigh it", "context": "none", "coworker": "Researcher of AI"})
    run = sandbox.answered(fork(sandbox, DELEGATION), edited, edited)
    same("decisions", decisions(run), {("call", True)})
    holds("the coworker has the edited task", any("Weigh it" in text for text in sandbox.model.prompts()))


@row("tool calls", "two calls at once, from the record")
def at_once(sandbox: Sandbox) -> None:
    tool, given = TOOLS["a class"], ("first", "second")
    recorded = [
        {
            "tool": tool.name,
            "arguments": dict.fromkeys(tool.arguments, tool_words(number)),
            "result": result,
        }
        for number, result in enumerate(given)
    ]
    request = fork(sandbox, tool, recorded=recorded, choices={tool.name: "recorded"})
    sandbox.model.calls_tools = 2
    run = sandbox.completed(request)
    same("decisions", [line["decision"] for line in run.of("tool_decided")], ["recorded"] * 2)
    same("results that the model was sent", sorted(set(results(sandbox))), list(given))
    same("called", sandbox.traced(), [])


@row("tool calls", "a refusal")
def refused(sandbox: Sandbox) -> None:
    tool = TOOLS["a class"]
    run = sandbox.completed(fork(sandbox, tool, choices={tool.name: "refuse"}))
    same("decisions", decisions(run), {("refuse", False)})
    holds(
        "the results say that the tool was not called",
        all("was not called" in text for text in results(sandbox)),
    )
    same("called", sandbox.traced(), [])


@row("tool calls", "a dry run")
def dry_run(sandbox: Sandbox) -> None:
    tool = TOOLS["a class"]
    request = fork(sandbox, tool, recorded=[], choices={tool.name: "call"}, dry_run=True)
    run = sandbox.completed(request)
    same("decisions", decisions(run), {("refuse", False)})
    same("called", sandbox.traced(), [])


@row("tool calls", "a class, from the run's own checkpoints")
def as_the_run_recorded_it(sandbox: Sandbox) -> None:
    tool, engine = TOOLS["a class"], engine_named("crewai")
    location, start, _before = recorded_after(sandbox, "used tool", 2)
    sources = [
        SpanSource(one.id, None, engine.contents_of(one.body)) for one in (start, saved_in(location)[-1])
    ]
    found = engine.recorded_tools(sources, plan_for(start, "crew", Edits()))
    same("recorded", [(one.arguments, one.result) for one in found.calls], [(tool.arguments, "nothing")])
    recorded = [{"tool": one.tool, "arguments": one.arguments, "result": RESULT} for one in found.calls]
    sandbox.model.calls_tools = 1
    request = request_for(start, location, entry_point=tool.entry_point)
    tools = decided(tool, recorded=recorded, choices={tool.name: "recorded"})
    run = sandbox.completed({**request, "options": {"tools": tools}})
    same("decisions", decisions(run), {("recorded", False)})
    same("results that the model was sent", set(results(sandbox)), {RESULT})
    same("called", sandbox.traced(), [])


def fork_without_a_model(sandbox: Sandbox) -> dict[str, Any]:
    """Return a fork after two tasks, whose models are answered from the record."""
    location, start, _before = recorded_after(sandbox, "simple", 2)
    engine = engine_named("crewai")
    answers = map(recorded_answer, engine.recorded_calls(engine.contents_of(saved_in(location)[-1].body)))
    request = request_for(start, location, entry_point="press_parts:plain")
    return {**request, "options": {"model_calls": {"recorded": list(answers), "in_order": False}}}


@row("tool calls", "a dry run without a model")
def without_model(sandbox: Sandbox) -> None:
    run = sandbox.completed(fork_without_a_model(sandbox), OPENAI_API_KEY="")
    same("answers", len(run.of("model_answered")), 2)
    same("calls of the model", sandbox.model.requests, [])


@row("tool calls", "a dry run without a model, stopped by other messages")
def stopped(sandbox: Sandbox) -> None:
    request = fork_without_a_model(sandbox)
    run = sandbox.run({**request, "inputs": {"topic": "other"}}, OPENAI_API_KEY="")
    holds("the run says why it stopped", "no usable answer" in str(run.end["error"]))
    same("calls of the model", sandbox.model.requests, [])


@row("tool calls", "a flow that calls tools by hand")
def by_hand(sandbox: Sandbox) -> None:
    tool = TOOLS["a class"]
    location, start, _before = recorded_after_method(sandbox, "by hand", "begin")
    request = request_for(start, location, entry_point="press_tools:HandFlow")
    tools = decided(tool, choices={tool.name: "recorded"})
    run = sandbox.completed({**request, "options": {"tools": tools}})
    same("decisions", [line["decision"] for line in run.of("tool_decided")], ["recorded"] * 2)
    holds("the method has both results", f"Look <{RESULT}> <{RESULT}>" in sandbox.model.prompts()[0])
    same("called", sandbox.traced(), [])
