"""What happens when a run calls a tool or a model, and replays of a recorded model call."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forkline_runner.recorded import Message, Record, Replacements, canonical, plain_name, replaced, set_keys
from forkline_runner.reporting import MAX_OUTPUT_BYTES, Refused, as_json, cut, described, shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import ModelCalls, Request, Tools


CALL, ASK, RECORDED, REFUSE = "call", "ask", "recorded", "refuse"
REFUSED = "Error: this tool was not called, because a person refused the call."
NOT_RECORDED = "Error: this tool was not called: in a dry run, only recorded results answer calls."
MAX_ARGUMENTS = 2000


@dataclass(frozen=True)
class Decision:
    """``answer`` replaces the result of the tool. If it is None, the tool is called with ``arguments``."""

    arguments: Any
    answer: str | None = None
    is_refused: bool = False


class ToolCalls:
    """Decides about each call, from any thread, and reports the decision.

    ``written`` returns the name of a tool as the engine writes it for models, which records have.
    """

    def __init__(self, tools: Tools, reporter: Reporter, written: Callable[[str], str] = str) -> None:
        self._written = written
        self._choices = {plain_name(tool): choice for tool, choice in tools["choices"].items()}
        self._is_known, self._is_dry_run = tools["is_known"], tools["dry_run"]
        self._reporter = reporter
        self._lock = threading.Lock()
        self._repeated = {plain_name(call["tool"]) for call in tools["recorded"]}
        self._results: dict[tuple[str, str], deque[str]] = {}
        for call in tools["recorded"]:
            if call["result"] is not None:
                key = plain_name(call["tool"]), canonical(call["arguments"])
                self._results.setdefault(key, deque()).append(call["result"])
        # The tool and the method whose call is under way, in each thread and task.
        self._current: ContextVar[tuple[object, object] | None] = ContextVar("current", default=None)

    def is_decided(self, tool: object, method: object) -> bool:
        """Return whether a method of the tool runs for a call of another one, which was decided about."""
        current = self._current.get()
        return current is not None and current[0] is tool and current[1] is not method

    @contextmanager
    def calling(self, tool: object, method: object) -> Iterator[None]:
        """Let other methods of this tool pass within the block."""
        token = self._current.set((tool, method))
        try:
            yield
        finally:
            self._current.reset(token)

    def decide(self, tool: str, arguments: Any, *, is_read_only: bool = False) -> Decision:
        """Return what happens to a call. Asks a person and waits, if that was chosen."""
        key = self._known_name(tool), canonical(arguments)
        choice = self._choice(key[0], is_read_only)
        if choice == RECORDED:
            if (result := self._take(key)) is not None:
                return self._reported(tool, Decision(arguments, result))
            if self._is_dry_run:
                return self._reported(tool, Decision(arguments, NOT_RECORDED, is_refused=True))
            choice = ASK
        is_asked = choice == ASK
        if is_asked:
            choice, arguments = self._ask(tool, arguments, key)
        if choice == RECORDED and (result := self._take(key)) is not None:
            return self._reported(tool, Decision(arguments, result), is_asked)
        if choice == CALL:
            return self._reported(tool, Decision(arguments), is_asked)
        return self._reported(tool, Decision(arguments, REFUSED, is_refused=True), is_asked)

    def _known_name(self, tool: str) -> str:
        """Return the name by which the record or a choice knows the tool, else its own."""
        names = plain_name(self._written(tool)), plain_name(tool)
        return next((one for one in names if one in self._repeated or one in self._choices), names[1])

    def _choice(self, name: str, is_read_only: bool) -> str:
        if self._is_dry_run:
            return REFUSE if self._choices.get(name) == REFUSE else RECORDED
        may_repeat = name in self._repeated or not self._is_known
        default = ASK if may_repeat and not is_read_only else CALL
        return str(self._choices.get(name, default))

    def _take(self, key: tuple[str, str]) -> str | None:
        with self._lock:
            results = self._results.get(key)
            return results.popleft() if results else None

    def _ask(self, tool: str, arguments: Any, key: tuple[str, str]) -> tuple[str, Any]:
        """Return a person's choice, and the arguments, which the person may have edited."""
        with self._lock:
            has_result = bool(self._results.get(key))
        text = self._reporter.questions.ask(
            "tool_call",
            f"Call {tool}?",
            tool=tool,
            output=arguments,
            choices=[CALL, *([RECORDED] if has_result else []), REFUSE],
            is_repeated=int(key[0] in self._repeated),
        )
        if text in (CALL, RECORDED, REFUSE):
            return text, arguments
        try:
            edited = json.loads(text)
        except ValueError:
            return REFUSE, arguments
        return (CALL, edited) if isinstance(edited, dict) else (REFUSE, arguments)

    def _reported(self, tool: str, decision: Decision, is_asked: bool = False) -> Decision:
        how = REFUSE if decision.is_refused else CALL if decision.answer is None else RECORDED
        self._reporter.write(
            "tool_decided",
            tool=tool,
            decision=how,
            asked=is_asked,
            arguments=shortened(as_json(decision.arguments), MAX_ARGUMENTS),
        )
        return decision


# The positional and the named arguments of a call.
Given = tuple[tuple[Any, ...], dict[str, Any]]
# Set on methods whose calls are decided.
IS_DECIDED = "forkline_decides"


@dataclass(frozen=True)
class ToolMethods:
    """How an engine's methods of tools are called.

    ``read`` returns the arguments of a call, and ``edited`` what the method is given with those that a person
    has edited. ``answered`` returns the method's result from the answer of a decision.
    """

    read: Callable[[Any, Given], Any]
    edited: Callable[[Given, Any, Decision], Given]
    is_read_only: Callable[[Any], bool]
    answered: Callable[[Any, Given, Decision], Any] = lambda _tool, _given, decision: decision.answer


def decided(method: Callable[..., Any], calls: ToolCalls, methods: ToolMethods) -> Callable[..., Any]:
    """Return a method of tools with each of its calls decided."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if calls.is_decided(self, method):
            return method(self, *args, **named)
        arguments, is_read_only = methods.read(self, (args, named)), methods.is_read_only(self)
        decision = calls.decide(self.name, arguments, is_read_only=is_read_only)
        if decision.answer is not None:
            return methods.answered(self, (args, named), decision)
        if decision.arguments is not arguments:
            args, named = methods.edited((args, named), arguments, decision)
        with calls.calling(self, method):
            return method(self, *args, **named)

    @functools.wraps(method)
    async def call_later(self: Any, *args: Any, **named: Any) -> Any:
        if calls.is_decided(self, method):
            return await method(self, *args, **named)
        arguments, is_read_only = methods.read(self, (args, named)), methods.is_read_only(self)
        decision = await asyncio.to_thread(calls.decide, self.name, arguments, is_read_only=is_read_only)
        if decision.answer is not None:
            return methods.answered(self, (args, named), decision)
        if decision.arguments is not arguments:
            args, named = methods.edited((args, named), arguments, decision)
        with calls.calling(self, method):
            return await method(self, *args, **named)

    replacement = call_later if inspect.iscoroutinefunction(method) else call
    setattr(replacement, IS_DECIDED, True)
    return replacement


def argument(given: Given, name: str) -> Any:
    """Return the first argument of a call, which has this name."""
    args, named = given
    return args[0] if args else named.get(name)


def with_argument(given: Given, name: str, value: Any) -> Given:
    """Return what a call is given with another first argument, which has this name."""
    args, named = given
    return (value, *args[1:]), {other: one for other, one in named.items() if other != name}


def tool_calls_of(
    request: Request, reporter: Reporter, written: Callable[[str], str] = str
) -> ToolCalls | None:
    """Return what decides about the calls of a request's run; None if every tool is called."""
    tools = (request.get("options") or {}).get("tools")
    return ToolCalls(tools, reporter, written) if tools else None


# Answers the model calls of a run from a record, so that no model is called and nothing is sent.


MAX_SHOWN = 2000
MAX_SENT = 200
# Threads that a run leaves behind may call models and connect until the process ends.
_until_exit = ExitStack()


class ModelAnswers(Record):
    """The recorded answers. ``refused`` is why the first call without an answer stops the run."""

    def __init__(self, calls: ModelCalls, reporter: Reporter) -> None:
        super().__init__({"answers": calls["recorded"], "results": []}, answers_in_order=calls["in_order"])
        self.refused: Refused | None = None
        self._code = "runner.no_answer_left" if calls["in_order"] else "runner.no_recorded_answer"
        self._reporter = reporter

    def answer(self, messages: list[Message], model: str = "", agent: str = "") -> dict[str, Any]:
        """Return the answer to a model call, and report it. Raises LookupError, which no engine retries."""
        try:
            found = super().answer(messages, model, agent)
        except LookupError:
            sent = shortened(" ".join((messages[-1][1] if messages else "").split()), MAX_SENT)
            self.refused = self.refused or Refused(self._code, model=model, sent=sent)
            raise LookupError(str(self.refused)) from None
        text = found["text"] or ", ".join(one["name"] for one in found["tools"])
        self._reporter.write(
            "model_answered",
            model=model,
            recorded=shortened(found["model"], MAX_SENT),
            agent=agent,
            answer=shortened(text, MAX_SHOWN),
        )
        return found


@contextmanager
def recorded_answers(
    request: Request, reporter: Reporter, methods: Callable[[Record], Replacements]
) -> Iterator[None]:
    """Answer all model calls from the record, and connect to nothing, if the request says so.

    The process does so until it ends. Raises Refused after the block if a call had no
    answer, even if code caught that.
    """
    calls = (request.get("options") or {}).get("model_calls")
    if calls is None:
        yield
        return
    answers = ModelAnswers(calls, reporter)
    set_keys()
    _until_exit.enter_context(replaced(methods(answers)))
    try:
        yield
    finally:
        if answers.refused:
            raise answers.refused


# Replays a model call: sends its messages to models of the project. No requested tool is executed.


# Measured as JSON, so that an answer always fits into one event.
MAX_TOOLS_BYTES = 40_000
MAX_ERROR = 2000
# Models name the stop sequences differently in what they record and in what they are given.
NAMES = {"stop_sequences": "stop"}


@dataclass(frozen=True)
class Answer:
    """The text of an answer, and the tool calls that it requests: ``name``, ``arguments`` and ``id``."""

    text: str
    tools: Sequence[Mapping[str, Any]] = ()


def replay(request: Request, reporter: Reporter, client_of: Callable[[str], Callable[[], Answer]]) -> str:
    """Call each model as often as requested, and report each answer in an event. Return an empty result.

    ``client_of`` returns a function that sends the request to the model of this name, or raises Refused. All
    are made before the first call. A call that fails is reported, and the others continue. Raises the last
    error if no call was answered.
    """
    wanted = request["replay"]
    clients = [(model, client_of(model)) for model in request["call"]["models"]]
    failure: Exception | None = None
    is_answered = False
    for attempt in range(1, wanted["times"] + 1):
        for model, send in clients:
            if reporter.limits:
                # A model of the project's own class may report nothing when it is called.
                reporter.limits.check(reporter, "model_started", {})
            began, answer, error = time.monotonic(), Answer(""), ""
            try:
                answer = send()
                is_answered = True
            except Exception as raised:
                failure, error = raised, shortened(described(raised), MAX_ERROR)
            text = cut(answer.text, MAX_OUTPUT_BYTES)
            reporter.write(
                "call_replayed",
                model=model,
                attempt=attempt,
                seconds=round(time.monotonic() - began, 3),
                text=text,
                is_cut=len(text) < len(answer.text),
                tools=_fitting(answer.tools),
                error=error,
            )
    if failure and not is_answered:
        raise failure
    return ""


def parameters_of(request: Request) -> dict[str, Any]:
    """Return the parameters of the call, by the names that a model is given."""
    return {NAMES.get(name, name): value for name, value in request["call"]["parameters"].items()}


def tools_of(request: Request) -> list[dict[str, Any]]:
    """Return the offered tools in the form of OpenAI, which the engines convert for other providers."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("schema") or {"type": "object", "properties": {}},
            },
        }
        for tool in request["call"]["tools"]
    ]


def messages_of(request: Request) -> list[dict[str, Any]]:
    """Return the messages in the form of OpenAI."""
    return [_message(message) for message in request["call"]["messages"]]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message["role"], "content": message["text"]}
    if message.get("name"):
        found["name"] = message["name"]
    if message.get("answers"):
        found["tool_call_id"] = message["answers"]
    if message.get("tools"):
        found["tool_calls"] = [
            {
                "id": tool.get("id") or f"call-{number}",
                "type": "function",
                "function": {"name": tool["name"], "arguments": _arguments(tool.get("args"))},
            }
            for number, tool in enumerate(message["tools"], 1)
        ]
    return found


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {}, ensure_ascii=False)


def _fitting(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requested tool calls; their names alone if they are too long for an event."""
    plain: list[Mapping[str, Any]] = json.loads(json.dumps(list(tools), default=str))
    if len(json.dumps(plain)) <= MAX_TOOLS_BYTES:
        return plain
    return [{"name": shortened(str(tool.get("name")), 200), "arguments": None} for tool in plain[:50]]
