"""The calls of models and tools that a checkpoint records, and what repeats its run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from viewer.engines.contents import short_title
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.entry_points import is_file
from viewer.engines.crewai.planning import agent_prompt
from viewer.engines.crewai.recorded_events import FAILED, STATE, Event, arguments_in, listed, mapping, text
from viewer.engines.crewai.store_format import restarts
from viewer.engines.plan import Action, Step
from viewer.engines.recorded_calls import (
    CallMessage,
    Failure,
    OfferedTool,
    RecordedCall,
    RecordedRun,
    RecordedToolCall,
    RecordedTools,
    Reproduction,
    RequestedTool,
    Sources,
    Span,
    SpanKind,
    SpanSource,
    SpanStatus,
    failed_attempts,
    heading,
    literal,
    loaded,
    plain_name,
)
from viewer.messages.catalog import gettext_noop as _

_UNITS = ("task_started", "method_execution_started", "lite_agent_execution_started")
_KINDS: Mapping[str, SpanKind] = {
    **dict.fromkeys(_UNITS, "unit"),
    "llm_call_started": "model",
    "tool_usage_started": "tool",
    "human_feedback_requested": "wait",
}
_ENDINGS = ("_completed", "_finished", "_paused", "_received", *FAILED)
GAPS = {"checkpoint_restore_started": _("until the resume"), "checkpoint_fork_started": _("until the fork")}


@dataclass(slots=True)
class _Record:
    """The events of a checkpoint. ``open`` are the events that began a span which has not ended."""

    by_id: dict[str, Event]
    open: dict[str, Event] = field(default_factory=dict)
    # The event that ended a span, by the id of the event that began it.
    ends: dict[str, Event] = field(default_factory=dict)


def spans(sources: Sources) -> list[Span]:
    """The spans that the newest of these checkpoints records, sorted by start."""
    if not sources or not isinstance(contents := sources[-1].contents, Contents):
        return []
    events = [event for event in contents.events if event.at is not None]
    record = _Record({event.id: event for event in events})
    for event in events:
        if event.kind in _KINDS and not _is_internal(event):
            record.open[event.id] = event
        elif event.kind.endswith(_ENDINGS) and (begun := _begun(event, record)):
            record.ends[begun.id] = event
            del record.open[begun.id]
    found = [
        _span(event, number, record)
        for number, event in enumerate(events)
        if event.kind in _KINDS and not _is_internal(event)
    ]
    return sorted([*found, *_attempts(found, events, record), *_gaps(events)], key=lambda span: span.start)


def _is_internal(event: Event) -> bool:
    """Whether an event began a unit of a flow that the engine itself runs. Calls of agents do not count."""
    return event.kind in _UNITS and event.is_internal


def _begun(event: Event, record: _Record) -> Event | None:
    """The open event whose span this event ends; None if there is none.

    This is the event that it names, or else the last open event of its kind and subject.
    """
    if event.started:
        return record.open.get(event.started)
    stem = next(event.kind.removesuffix(ending) for ending in _ENDINGS if event.kind.endswith(ending))
    same = [
        one
        for one in record.open.values()
        if one.kind.startswith(stem) and (one.task_id, one.subject) == (event.task_id, event.subject)
    ]
    return same[-1] if same else None


def _span(event: Event, number: int, record: _Record) -> Span:
    assert event.at is not None, "Events without a time are left out."
    kind, end = _KINDS[event.kind], record.ends.get(event.id)
    parent = _unit_above(event, record)
    status: SpanStatus = "open" if end is None else "failed" if end.is_failure else "done"
    return Span(
        id=event.id,
        kind=kind,
        label=event.call.model if kind == "model" else short_title(event.subject),
        start=event.at,
        end=end.at if end else None,
        parent=parent.id if parent else "",
        status=status,
        agent=event.agent or (end.agent if end else "") or _agent_above(event, record),
        call=end.call if end and kind == "model" else event.call,
        prompt=tuple(CallMessage(one.role, one.content) for one in event.messages),
        answer=end.text if end and status == "done" else event.text if kind == "tool" else "",
        error=end.text if end and status == "failed" else "",
        events_before=number,
        call_id=event.id if kind == "model" else "",
        arguments=arguments_in(event.arguments) if kind == "tool" else None,
    )


def _above(event: Event, record: _Record) -> Iterator[Event]:
    """The chain of events that caused an event, the nearest first."""
    seen = {event.id}
    while (event := record.by_id.get(event.parent, event)).id not in seen:
        seen.add(event.id)
        yield event


def _unit_above(event: Event, record: _Record) -> Event | None:
    units = (one for one in _above(event, record) if one.kind in _UNITS and not _is_internal(one))
    return next(units, None)


def _agent_above(event: Event, record: _Record) -> str:
    return next((one.agent for one in _above(event, record) if one.agent), "")


def _attempts(found: Sequence[Span], events: Sequence[Event], record: _Record) -> Iterator[Span]:
    """The attempts that were repeated because a guardrail refused the output or the agent failed."""
    failed: dict[str, Event] = {}
    failures: dict[str, list[Failure]] = {}
    for event in events:
        is_failed = event.is_refusal or event.kind == "agent_execution_error"
        if not is_failed and event.kind != "agent_execution_started":
            continue
        unit = _unit_above(event, record)
        if unit is None:
            continue
        if is_failed:
            failed[unit.id] = event
        elif (last := failed.pop(unit.id, None)) and last.at and event.at:
            failures.setdefault(unit.id, []).append(Failure(last.at, event.at, last.text))
    for span in found:
        yield from failed_attempts(span, failures.get(span.id, ()))


def _gaps(events: list[Event]) -> Iterator[Span]:
    """The spans of the time before each resume and fork."""
    begins = set(restarts([(event.kind, event.at.timestamp()) for event in events if event.at]))
    for number, (before, event) in enumerate(pairwise(events), 1):
        if number in begins and before.at and event.at:
            label = GAPS.get(event.kind, GAPS["checkpoint_restore_started"])
            yield Span(event.id, "gap", label, before.at, event.at)


# What the events of a call record of its request, and of the answer.
PARAMETERS = (
    *("temperature", "top_p", "max_tokens", "seed", "stop_sequences"),
    *("frequency_penalty", "presence_penalty", "n", "stream"),
)
REPORTED = ("finish_reason", "call_type", "response_id")
# Precedes the output in an answer to the engine's own prompt.
FINAL = "Final Answer:"


def recorded_calls(contents: Contents) -> Iterator[RecordedCall]:
    """The model calls of the checkpoint and its ancestors, oldest first."""
    by_id = {event.id: event for event in contents.events}
    ends = {event.started: event for event in contents.events if event.started}
    for span in spans([SpanSource("", None, contents)]):
        if span.call_id:
            yield _recorded(span, by_id[span.call_id], ends.get(span.call_id))


def _recorded(span: Span, started: Event, ended: Event | None) -> RecordedCall:
    request, answer = started.recorded, _answer(span, ended.recorded.get("response") if ended else None)
    result: Mapping[str, Any] = ended.recorded if ended else {}
    # Old versions record the messages only with the answer.
    messages = request.get("messages") or result.get("messages")
    return RecordedCall(
        id=span.call_id,
        model=started.model or span.call.model,
        conversation=tuple(_messages(messages)),
        answer=answer,
        tools=tuple(_offered(one) for one in listed(request.get("tools")) if isinstance(one, dict)),
        parameters={name: request[name] for name in PARAMETERS if request.get(name) not in (None, [])},
        reported={name: result[name] for name in REPORTED if result.get(name) is not None},
        usage=span.call,
        agent=span.agent,
        start=span.start,
        end=span.end,
        error=span.error,
        part=f"outputs:{started.task_id}" if started.task_id else "",
        before_result=FINAL,
    )


def _messages(value: Any) -> Iterator[CallMessage]:
    if text(value):
        yield CallMessage("user", text(value))
    for item in listed(value):
        if isinstance(item, dict):
            written, other_parts = _content(item.get("content"))
            yield CallMessage(
                text(item.get("role")),
                written,
                text(item.get("name")),
                tuple(_requested(item.get("tool_calls"))),
                text(item.get("tool_call_id")),
                other_parts,
            )


def _content(content: Any) -> tuple[str, int]:
    """The text of a message's content, and the number of its parts that are not text."""
    parts = listed(content)
    texts = [part for one in parts if (part := text(one) or text(mapping(one).get("text")))]
    return text(content) or "\n".join(texts), len(parts) - len(texts)


def _answer(span: Span, response: Any) -> CallMessage | None:
    """The answer; None if none is recorded. What is neither a text nor requested tools is shown as JSON."""
    if span.status != "done":
        return None
    if tools := tuple(_requested(response)):
        return CallMessage("assistant", "", tools=tools)
    written = span.answer or ("" if response is None else json.dumps(response, ensure_ascii=False))
    return CallMessage("assistant", written) if written else None


def _requested(value: Any) -> Iterator[RequestedTool]:
    """The tool calls that a list holds, as OpenAI and Anthropic write them."""
    for one in map(mapping, listed(value)):
        function = mapping(one.get("function")) or one
        if name := text(function.get("name")):
            arguments = arguments_in(function.get("arguments", function.get("input")))
            yield RequestedTool(name, arguments, text(one.get("id")))


def _offered(tool: Mapping[str, Any]) -> OfferedTool:
    function = mapping(tool.get("function")) or tool
    schema = function.get("parameters", function.get("input_schema"))
    return OfferedTool(text(function.get("name")), text(function.get("description")), schema)


# The tool calls that the event record of a checkpoint holds.


STARTED, ENDED = "tool_usage_started", ("tool_usage_finished", "tool_usage_error")
MAY_RUN = (Action.AGAIN, Action.RUNS, Action.MAY)


def recorded_tools(sources: Sources, steps: Sequence[Step], *, is_edited: bool = False) -> RecordedTools:
    """The calls of the last attempts of these steps; of a flow or an agent, those after the first source.

    The last source has the events of all others.
    """
    known = [one.contents for one in sources if isinstance(one.contents, Contents)]
    if not known:
        return RecordedTools()
    contents, record = known[0], known[-1]
    running = {step.unit for step in steps if step.action in MAY_RUN}
    if contents.kind == "crew":
        calls = [call for call in _calls(_last_attempts(record.events)) if call.unit in running]
    else:
        before = {event.id for event in contents.events}
        calls = list(_calls([one for one in record.events if one.id not in before]))
    return RecordedTools(calls, _others(contents, running, {call.tool for call in calls}))


def _last_attempts(events: Sequence[Event]) -> list[Event]:
    """The events without those of a task that were followed by another start of it."""
    kept: list[Event] = []
    for event in events:
        if event.kind == "task_started" and event.task_id:
            kept = [one for one in kept if one.task_id != event.task_id]
        kept.append(event)
    return kept


def _calls(events: Sequence[Event]) -> Iterator[RecordedToolCall]:
    ends = {event.started: event for event in events if event.kind in ENDED and event.started}
    for event in events:
        if event.kind == STARTED:
            end = ends.get(event.id)
            result, is_error = (end.text, end.is_failure) if end else (None, False)
            arguments = arguments_in(event.arguments)
            yield RecordedToolCall(event.task_id, event.subject, arguments, event.at, result, is_error)


def _others(contents: Contents, running: set[str], recorded: set[str]) -> list[str]:
    """The names of the other tools that running tasks and their agents have; of all agents if not a crew."""
    tasks = [task for task in contents.tasks if task.id in running]
    roles = {task.agent for task in tasks}
    agents = [agent for agent in contents.agents if agent.role in roles or contents.kind != "crew"]
    names = [name for task in tasks for name in task.tools] + [name for one in agents for name in one.tools]
    known = {plain_name(name) for name in recorded}
    return list({key: name for name in names if (key := plain_name(name)) not in known}.values())


# Writes a Python script that repeats a fork, a resume or a new run with CrewAI itself.


_CLASSES = {"crew": "Crew", "flow": "Flow", "agent": "Agent"}
_TITLES = {
    "fork": "Fork a checkpoint with CrewAI.",
    "resume": "Resume a checkpoint with CrewAI.",
    "run": "Run an entry point with CrewAI.",
}


def script(what: Reproduction) -> str:
    """The source of the script. The script writes checkpoints to the location of the original.

    Empty for an answer to a flow: the flow no longer waits for it.
    """
    if what.entity == STATE and not what.starts_over:
        return ""
    lines = heading(what, _TITLES[what.kind])
    if what.entity == STATE:
        return "\n".join([*lines, *_from_state(what), ""])
    lines += _new_run(what) if what.kind == "run" else _restored(what)
    lines += _kickoff(what)
    return "\n".join([*lines, ""])


def _restored(what: Reproduction) -> list[str]:
    """The lines that restore the checkpoint and apply the edits."""
    lines = [
        "from crewai.state.checkpoint_config import CheckpointConfig",
        *_provider(what),
        "",
        f"config = CheckpointConfig(restore_from={what.source!r}, provider=provider)",
        "",
    ]
    owner, definition = _CLASSES.get(what.entity, "Crew"), ""
    if what.entity == "flow" and is_file(what.entry_point):
        lines += [
            "from crewai.flow.flow import Flow",
            "from crewai.flow.flow_definition import FlowDefinition",
            "",
            f"definition = FlowDefinition.from_declaration(path={what.entry_point!r})",
            "restored = Flow",
        ]
        definition = ", definition=definition"
    elif what.entity == "flow":
        # A flow that is restored through the base class runs nothing.
        lines += [
            *loaded(what.entry_point, "made"),
            "restored = made if isinstance(made, type) else type(made())",
        ]
    else:
        lines += [f"from crewai import {owner}", "", f"restored = {owner}"]
    call = (
        f"restored.fork(config, branch={what.branch!r}{definition})"
        if what.kind == "fork"
        else f"restored.from_checkpoint(config{definition})"
    )
    lines += [f"run = {call}", *_checkpoints(what)]
    if what.entity == "crew":
        lines += _edited_tasks(what)
    if what.state:
        lines += ["", f"for name, value in {literal(dict(what.state))}.items():"]
        lines += ["    if isinstance(run.state, dict):", "        run.state[name] = value"]
        lines += ["    else:", "        setattr(run.state, name, value)"]
    return lines


def _from_state(what: Reproduction) -> list[str]:
    """The lines that run a flow with a state. It writes its states to another file."""
    values = f"{{**json.loads(state), **{literal(dict(what.state))}}}" if what.state else "json.loads(state)"
    address = f"file:{quote(what.source.rpartition('#')[0])}?mode=ro"
    rowid = int(what.checkpoint_id.rpartition("_")[2], 16)
    made = [
        *loaded(what.entry_point, "made"),
        "run = made(persistence=copy) if isinstance(made, type) else made()",
    ]
    if is_file(what.entry_point):
        path = f"path={what.entry_point!r}, persistence=copy"
        made = ["from crewai.flow.flow import Flow", "", f"run = Flow.from_declaration({path})"]
    return [
        "import json",
        "import sqlite3",
        "",
        "from crewai.flow.persistence import SQLiteFlowPersistence",
        "",
        f"source = sqlite3.connect({address!r}, uri=True)",
        'query = "SELECT flow_uuid, method_name, state_json FROM flow_states WHERE rowid = ?"',
        f"flow, method, state = source.execute(query, ({rowid},)).fetchone()",
        'copy = SQLiteFlowPersistence("fork.db")',
        f"copy.save_state(flow, method, {values})",
        "",
        *made,
        "run.persistence = copy",
        "",
        "result = run.kickoff(restore_from_state_id=flow)",
        "print(result)",
    ]


def _provider(what: Reproduction) -> list[str]:
    module, name = (
        ("sqlite_provider", "SqliteProvider")
        if what.store_kind == "sqlite"
        else ("json_provider", "JsonProvider")
    )
    return [f"from crewai.state.provider.{module} import {name}", "", f"provider = {name}()"]


def _checkpoints(what: Reproduction) -> list[str]:
    """The lines that set where the run writes checkpoints. A restored run would write none, or elsewhere."""
    config = f"CheckpointConfig(location={what.location!r}, provider=provider, on_events=events)"
    return [
        'events = run.checkpoint.on_events if getattr(run, "checkpoint", None) else ["task_completed"]',
        f"run.checkpoint = {config}",
    ]


def _edited_tasks(what: Reproduction) -> list[str]:
    if not what.outputs and not what.again:
        return []
    return [
        "",
        "import json",
        "",
        f"outputs = {literal(dict(what.outputs))}",
        f"again = {literal(set(what.again))}",
        "for task in run.tasks:",
        "    if str(task.id) in again:",
        "        task.output = None",
        "    elif str(task.id) in outputs:",
        "        value = outputs[str(task.id)]",
        "        task.output.raw = value if isinstance(value, str) else json.dumps(value)",
        "        if task.output.json_dict is not None:",
        "            task.output.json_dict = json.loads(task.output.raw)",
        # The engine restores a Pydantic model without its class, so only its text and JSON value are valid.
        "        task.output.pydantic = None",
        "        task.output.messages = []",
    ]


def _new_run(what: Reproduction) -> list[str]:
    """The lines that make the root entity of a new run."""
    if is_file(what.entry_point):
        maker = "Flow.from_declaration(path={!r})" if what.entity == "flow" else "load_crew({!r})[0]"
        source = (
            "crewai.flow.flow import Flow" if what.entity == "flow" else "crewai.project import load_crew"
        )
        lines = [f"from {source}", "", f"run = {maker.format(what.entry_point)}"]
    else:
        lines = [*loaded(what.entry_point, "made"), "", "run = made() if callable(made) else made"]
        if what.entity == "crew":
            lines += ['run = run.crew() if hasattr(run, "crew") and not hasattr(run, "kickoff") else run']
    provided = ["", "from crewai.state.checkpoint_config import CheckpointConfig", *_provider(what)]
    return [*lines, *provided, *_checkpoints(what)]


def _kickoff(what: Reproduction) -> list[str]:
    if what.entity == "agent":
        given = literal(what.inputs.get("messages", ""))
    else:
        given = f"inputs={literal(dict(what.inputs))}" if what.inputs else ""
    return ["", f"result = run.kickoff({given})", "print(result)"]


def recorded_run(sources: Sources) -> RecordedRun | None:
    """The inputs and outputs of a run without resumes; None for another one, whose record mixes both."""
    contents = sources[-1].contents if sources else None
    if not isinstance(contents, Contents) or any(span.kind == "gap" for span in spans(sources)):
        return None
    if contents.kind == "crew":
        outputs = {f"task {task.position}": task.output for task in contents.tasks}
        return RecordedRun(contents.inputs, outputs) if None not in outputs.values() else None
    if contents.kind == "flow" and contents.flow_state is not None:
        # The id of the state is another one in each run.
        state = {name: value for name, value in contents.flow_state.items() if name != "id"}
        return RecordedRun(contents.inputs, state)
    calls, prompt = list(recorded_calls(contents)), agent_prompt(contents)
    if contents.kind == "agent" and calls and prompt is not None:
        return RecordedRun({"messages": prompt}, {"output": calls[-1].result})
    return None
