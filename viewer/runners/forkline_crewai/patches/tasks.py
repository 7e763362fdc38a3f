"""Patches of which tasks of a crew, methods of a flow and calls of tools run."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import crewai.crew
from crewai import Agent, Crew
from crewai.flow.flow import Flow
from crewai.task import Task
from crewai.tools.base_tool import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from forkline_runner.calls import IS_DECIDED, Given, ToolCalls, ToolMethods, argument, decided, with_argument
from forkline_runner.recorded import change_classes, plain_name

# The replay ends after this many iterations of the event loop without a replayed method.
MAX_IDLE_ITERATIONS = 50


def pass_on_async_failures() -> None:
    """Stop a crew when any exception ends the thread of one of its async tasks.

    Patches: crewai.task.Task._execute_task_async
    Versions: 1.14.2 and newer
    Why: The engine passes only an ``Exception`` on to the crew. If code in the task's thread exits the
        program, or a library panics, the thread is gone and the crew waits for its output forever.
    Test: tests/runners/runs/test_endings.py::
        test_an_async_task_that_exits_the_program_does_not_block_its_crew
    """
    execute = Task._execute_task_async

    def executed(task: Any, agent: Any, context: Any, tools: Any, future: Future[Any]) -> None:
        try:
            execute(task, agent, context, tools, future)
        except BaseException as error:
            future.set_exception(error)

    Task._execute_task_async = executed


def call_before_first_task(crew: Any, callback: Callable[[], None]) -> None:
    """Call ``callback`` once ``crew`` is ready to start its first task.

    Patches: crewai.crew.prepare_task_execution
    Versions: 1.14.2 and newer
    Why: The prompt cache is warmed with the prompts that the engine builds, and only then are they complete.
    Test: tests/runners/runs/test_models_and_cache_warmup.py::
        test_another_model_for_a_role_and_a_cache_warmup
    """
    prepare_task = crewai.crew.prepare_task_execution
    callbacks = [callback]

    def prepare(prepared: Any, *rest: Any, **named: Any) -> Any:
        if prepared is crew and callbacks:
            callbacks.pop()()
        return prepare_task(prepared, *rest, **named)

    crewai.crew.prepare_task_execution = prepare


def hold_tasks(held: Collection[str], skipped: Collection[str] = ()) -> None:
    """Skip tasks wherever they are in a crew, and keep their outputs.

    Both are ids: of tasks that are ``held`` if they have an output, and of tasks that are always ``skipped``.
    While an async task runs, a held task returns its output instead, so that the engine keeps the order.

    Patches: crewai.crew.prepare_task_execution, crewai.crew.check_conditional_skip,
        crewai.task.Task.execute_sync, crewai.task.Task.execute_async
    Versions: 1.14.2 and newer
    Why: Once one task has no output, the engine runs that task and all tasks after it. And it hands on the
        output of a skipped task before those of earlier tasks that still run, so that later tasks read
        another order.
    Test: tests/runners/resuming/test_crews.py::test_the_plan_lists_exactly_the_tasks_the_model_is_called_for
    """
    prepare_task = crewai.crew.prepare_task_execution
    check_condition = crewai.crew.check_conditional_skip
    # The ids of held tasks that return their outputs, and whether the engine still waits for async tasks.
    returned: set[str] = set()
    waits = [False]

    def is_held(task: Any) -> bool:
        return str(task.id) in held and task.output is not None

    def prepare(crew: Any, task: Any, index: int, start: int | None, *rest: Any) -> Any:
        if str(task.id) in skipped:
            return prepare_task(crew, task, index, index + 1, *rest)
        if is_held(task):
            start = index + 1
        will_run = start is None or index >= start
        if will_run:
            waits[0] = bool(task.async_execution)
            return prepare_task(crew, task, index, start, *rest)
        if task.output is None or not waits[0]:
            return prepare_task(crew, task, index, start, *rest)
        outputs, *others = rest
        data, _outputs, last = prepare_task(crew, task, index, start, [], *others)
        data.should_skip = False
        returned.add(str(task.id))
        waits[0] = bool(task.async_execution)
        return data, outputs, last

    def condition(crew: Any, task: Any, *rest: Any) -> Any:
        return None if str(task.id) in returned else check_condition(crew, task, *rest)

    crewai.crew.prepare_task_execution = prepare
    crewai.crew.check_conditional_skip = condition
    _return_outputs(returned)


def _return_outputs(returned: Collection[str]) -> None:
    """Make tasks with these ids return the outputs that they have."""
    execute_sync, execute_async = Task.execute_sync, Task.execute_async

    def sync(self: Any, *rest: Any, **named: Any) -> Any:
        return self.output if str(self.id) in returned else execute_sync(self, *rest, **named)

    def asynchronous(self: Any, *rest: Any, **named: Any) -> Any:
        if str(self.id) not in returned:
            return execute_async(self, *rest, **named)
        future: Future[Any] = Future()
        future.set_result(self.output)
        return future

    Task.execute_sync = sync
    Task.execute_async = asynchronous


def call_before_kickoffs(before: Callable[[Any, Any], None]) -> None:
    """Call ``before`` with each crew inside a flow and its inputs before the crew is kicked off.

    Patches: crewai.Crew.kickoff, crewai.Crew.akickoff
    Versions: 1.14.2 and newer
    Why: The engine runs the interrupted method of a flow from its beginning, so its crew would be paid for
        again.
    Test: quality/compatibility/rows/flow_results.py::middle
    """
    kickoff, kickoff_natively = Crew.kickoff, Crew.akickoff

    def kicked_off(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        before(self, inputs)
        return kickoff(self, inputs, *rest, **named)

    async def kicked_off_natively(self: Any, inputs: Any = None, *rest: Any, **named: Any) -> Any:
        before(self, inputs)
        return await kickoff_natively(self, inputs, *rest, **named)

    Crew.kickoff, Crew.akickoff = kicked_off, kicked_off_natively


class Replay:
    """The recorded results of a flow's finished methods that are not replayed yet.

    They are kept by method and in the order of the run, and replayed as often as each method had run.
    """

    def __init__(self, flow: Any, results: Mapping[str, Sequence[Any]]) -> None:
        self.flow = flow
        self.left = {name: deque(values) for name, values in results.items()}
        self.has_begun = self.is_over = False
        self.count = 0

    def begin(self) -> None:
        """Make the engine start the flow as if nothing had run; finished methods return at once."""
        if self.has_begun:
            return
        self.has_begun = True
        for name in self.flow._completed_methods:
            # Finished, but its result is not recorded.
            self.left.setdefault(str(name), deque([None]))
        self.flow._completed_methods.clear()
        self.flow._is_execution_resuming = False

    def has(self, method: Any) -> bool:
        """Return whether a result of the method is left to replay."""
        return bool(self.left.get(str(method)))

    def next_result(self, method: Any) -> Any:
        """Return the next recorded result of the method."""
        self.count += 1
        self.flow._completed_methods.add(method)
        return self.left[str(method)].popleft()

    async def finished(self) -> None:
        """Wait until every finished method is replayed; no other method runs before.

        A checkpoint that a method writes then contains all of them, and a method that had lost a race is
        cancelled before it is paid for.
        """
        idle, seen = 0, self.count
        while not self.is_over and idle < MAX_IDLE_ITERATIONS:
            await asyncio.sleep(0)
            idle, seen = (idle + 1, seen) if seen == self.count else (0, self.count)
        if not self.is_over:
            self.is_over = True
            names = {str(name): name for name in self.flow._methods}
            # Methods that were not reached, because the code has changed, stay finished.
            self.flow._completed_methods |= {
                names[name] for name, left in self.left.items() if left and name in names
            }


def replay_methods(replay: Replay) -> None:
    """Return the recorded results of a flow's finished methods instead of running them.

    The replay begins when the flow is kicked off. Apply other patches of methods first.

    Patches: crewai.flow.flow.Flow._execute_start_method, crewai.flow.flow.Flow._execute_method
    Versions: 1.14.2 to 1.15.30 at least
    Why: The engine skips every method that is listed as finished. After a router that goes back to one, the
        flow never ends (RecursionError).
    Test: quality/compatibility/rows/flows.py::loop
    """
    engine: Any = Flow
    execute_start, execute = engine._execute_start_method, engine._execute_method

    async def starting(self: Any, *rest: Any, **named: Any) -> Any:
        if self is replay.flow:
            replay.begin()
        return await execute_start(self, *rest, **named)

    async def executing(self: Any, name: Any, *rest: Any, **named: Any) -> Any:
        if self is replay.flow and replay.has_begun:
            if replay.has(name):
                return replay.next_result(name), None
            await replay.finished()
        return await execute(self, name, *rest, **named)

    engine._execute_start_method, engine._execute_method = starting, executing


def reuse_pending_output(
    flow: Any, method: str, resume: Callable[[], Callable[..., Any]], done: Callable[[], None]
) -> None:
    """Reuse the output of a flow's method that paused for feedback, instead of running the method again.

    What ``resume`` returns runs in place of ``method``, then ``done`` is called. Has no effect once another
    method of ``flow`` has finished.

    Patches: crewai.flow.flow.Flow._execute_method
    Versions: 1.14.2 and newer
    Why: The engine would run the method again, and pay for it again, before it requests feedback.
    Test: quality/compatibility/rows/questions.py::pending
    """
    engine: Any = Flow
    execute = engine._execute_method
    finished = {"any": False}

    async def executing(self: Any, name: Any, original: Any, *rest: Any, **named: Any) -> Any:
        if self is not flow or str(name) != method or finished["any"]:
            outcome = await execute(self, name, original, *rest, **named)
            finished["any"] = finished["any"] or self is flow
            return outcome
        finished["any"] = True
        outcome = await execute(self, name, resume(), *rest, **named)
        done()
        return outcome

    engine._execute_method = executing


def resolve_provider_once(flow: Any, config: Any, provider: Any) -> None:
    """Resolve the feedback provider of ``config`` to ``provider``, once and for this flow.

    Patches: crewai.flow.flow.Flow._resolve_feedback_provider
    Versions: 1.15.0 and newer; older ones have no _resolve_feedback_provider
    Why: The provider that paused the flow would be called a second time, and pause it again.
    Test: quality/compatibility/rows/questions.py::pending
    """
    engine: Any = Flow
    resolve, waiting = engine._resolve_feedback_provider, [config]

    def resolved(self: Any, definition: Any) -> Any:
        if self is flow and any(definition is one for one in waiting):
            waiting.clear()
            return provider
        return resolve(self, definition)

    engine._resolve_feedback_provider = resolved


# Decides about the calls of CrewAI's tools, before they reach the tools' own code.


# The names of tools of MCP servers, each with whether every server that has one declares it to be read-only.
_declared: dict[str, bool] = {}


def decide_about_calls(calls: ToolCalls) -> None:
    """Have each call of a tool decided, of the classes that exist and of those that are defined later.

    Patches: run and arun of crewai.tools.base_tool.BaseTool and of its subclasses, its __init_subclass__, and
        invoke and ainvoke of crewai.tools.structured_tool.CrewStructuredTool
    Versions: 1.14.2 and newer
    Why: A hook of the engine can refuse a call, but neither answer it with a recorded result nor change its
        arguments for every way in which agents, flows and methods call tools.
    Test: tests/runners/resuming/test_tool_calls.py::test_a_recorded_result_answers
    """
    change_classes(BaseTool, _decide_methods, calls)
    for name in ("invoke", "ainvoke"):
        method = getattr(CrewStructuredTool, name)
        setattr(CrewStructuredTool, name, decided(method, calls, BY_INPUT))
    note_read_only_tools()


def note_read_only_tools() -> None:
    """Note which tools MCP servers declare to be read-only: they are called unless a person chose otherwise.

    Patches: get_mcp_tools of crewai.Agent, and list_tools of mcp.ClientSession once an agent has servers
    Versions: 1.14.2 and newer
    Why: The engine drops the annotations of a server's tools. mcp is only imported if a crew uses it.
    Test: tests/runners/resuming/test_tool_calls.py::test_a_read_only_tool_of_a_server_is_called
    """
    original = Agent.get_mcp_tools

    @functools.wraps(original)
    def get_mcp_tools(self: Any, *args: Any, **given: Any) -> Any:
        _note_listed_tools()
        return original(self, *args, **given)

    Agent.get_mcp_tools = get_mcp_tools


@functools.cache
def _note_listed_tools() -> None:
    from mcp import ClientSession

    original = ClientSession.list_tools

    @functools.wraps(original)
    async def list_tools(self: Any, *args: Any, **given: Any) -> Any:
        found = await original(self, *args, **given)
        for tool in found.tools:
            name, is_read_only = plain_name(tool.name), bool(getattr(tool.annotations, "readOnlyHint", False))
            _declared[name] = _declared.get(name, True) and is_read_only
        return found

    ClientSession.list_tools = list_tools


def _is_read_only(tool: Any) -> bool:
    """Return whether it is a tool of an MCP server that is declared to be read-only."""
    name = getattr(getattr(tool, "_original_tool", None) or tool, "original_tool_name", None)
    return isinstance(name, str) and _declared.get(plain_name(name), False)


def _decide_methods(cls: type[BaseTool], calls: ToolCalls) -> None:
    """Wrap the methods that a class itself defines."""
    for name in ("run", "arun"):
        method = vars(cls).get(name)
        if callable(method) and not hasattr(method, IS_DECIDED):
            setattr(cls, name, decided(method, calls, BY_NAME))


def _by_name(tool: Any, given: Given) -> dict[str, Any]:
    names = getattr(getattr(tool, "args_schema", None), "model_fields", {})
    return {**dict(zip(names, given[0], strict=False)), **given[1]}


BY_NAME = ToolMethods(_by_name, lambda _given, _arguments, decision: ((), decision.arguments), _is_read_only)
BY_INPUT = ToolMethods(
    lambda _tool, given: argument(given, "input"),
    lambda given, _arguments, decision: with_argument(given, "input", decision.arguments),
    _is_read_only,
)
