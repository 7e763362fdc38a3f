"""The graph that an entry point of the project makes, and the settings with which it runs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_runner import findings, project
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import Request


# Adds folders to the import path (viewer/engines/langgraph/project_source.py).
CONFIGURATION = "langgraph.json"
MAX_BYTES = 512 * 1024
MAX_FOLDERS = 50


def enter_project(folder: str) -> None:
    """Change to the project's folder. Make it, its ``src`` and its dependencies importable. Raises Refused.

    The dependencies come last, as with LangGraph's own server: installed packages keep their names.
    """
    project.enter(folder)
    if not folder:
        return
    known = {Path(path or ".").resolve() for path in sys.path}
    for text in _dependencies(Path(folder))[:MAX_FOLDERS]:
        for path in (Path(folder, text), Path(folder, text, "src")):
            if path.is_dir() and path.resolve() not in known:
                known.add(path.resolve())
                sys.path.append(str(path.resolve()))
    importlib.invalidate_caches()


def _dependencies(folder: Path) -> list[str]:
    """Return the dependencies in the configuration; none if it cannot be read."""
    path = folder / CONFIGURATION
    try:
        # If the file holds environment variables, a preflight check hides it from the project's code.
        with findings.environment_files_allowed():
            if path.stat().st_size > MAX_BYTES:
                return []
            found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return []
    named = found.get("dependencies") if isinstance(found, dict) else None
    return (
        [one for one in named if isinstance(one, str) and "\0" not in one] if isinstance(named, list) else []
    )


# Seconds that cancelled tasks have to clean up.
CLEAN_UP_SECONDS = 2

_loops: list[asyncio.AbstractEventLoop] = []


def run_in_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the loop to its end. Return its result."""
    return _loop().run_until_complete(coroutine)


@contextlib.contextmanager
def opened_in_loop(manager: Any) -> Iterator[Any]:
    """Enter an async context manager for the block. Yield its value.

    The same task enters and exits it, as some context managers require.
    """
    loop = _loop()
    entered: asyncio.Future[Any] = loop.create_future()
    leaving: asyncio.Future[None] = loop.create_future()

    async def hold() -> None:
        async with manager as value:
            entered.set_result(value)
            await leaving

    holder = loop.create_task(hold())
    loop.run_until_complete(asyncio.wait([holder, entered], return_when=asyncio.FIRST_COMPLETED))
    if holder.done():
        # The context manager failed before it yielded: raise its error.
        holder.result()
    try:
        yield entered.result()
    finally:
        leaving.set_result(None)
        loop.run_until_complete(asyncio.wait([holder], timeout=CLEAN_UP_SECONDS))
        if holder.done() and not holder.cancelled() and (error := holder.exception()):
            raise error


def close_loop() -> None:
    """Cancel the remaining tasks and close the loop. Does nothing if no loop was used."""
    while _loops:
        loop = _loops.pop()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLEAN_UP_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _loop() -> asyncio.AbstractEventLoop:
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0]


# A person's configuration must not choose the thread or checkpoint that a run continues.
RESERVED = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}
EVERY = "*"


@dataclass(frozen=True)
class RunSettings:
    """``before`` and ``after`` name the nodes at which a run stops; ``*`` is every node."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    configurable: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)

    def config(self, thread: str) -> dict[str, Any]:
        """Return the config of a run on this thread."""
        return {"configurable": {**self.configurable, "thread_id": thread}}

    def stream_options(self, graph: Any) -> dict[str, Any]:
        """Return the options for the graph's ``stream``. Raises Refused for options that it lacks."""
        unknown = sorted({*self.before, *self.after} - {EVERY} - set(graph.nodes))
        if unknown:
            raise Refused("langgraph.no_such_node", node=", ".join(unknown))
        options: dict[str, Any] = {}
        for name, nodes in (("interrupt_before", self.before), ("interrupt_after", self.after)):
            if nodes:
                options[name] = EVERY if EVERY in nodes else list(nodes)
        if self.context:
            if "context" not in inspect.signature(graph.stream).parameters:
                raise Refused("langgraph.no_context")
            options["context"] = dict(self.context)
        return options


def settings_of(request: Request) -> RunSettings:
    """Return the settings of a request. Raises Refused if its configurable values have reserved names."""
    options, configurable = request.get("options") or {}, request.get("configurable") or {}
    taken = sorted(name for name in configurable if name in RESERVED or name.startswith("__"))
    if taken:
        raise Refused("langgraph.reserved_configurable", names=", ".join(taken))
    return RunSettings(
        tuple(options.get("stop_before") or ()),
        tuple(options.get("stop_after") or ()),
        configurable,
        request.get("context") or {},
    )


def graph_of(request: Request, thread: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context manager that yields the graph of the request's entry point."""
    return made_by(request["entry_point"], settings_of(request).config(thread))


@contextlib.contextmanager
def made_by(entry_point: str, config: dict[str, Any]) -> Iterator[Any]:
    """Yield the compiled graph that an entry point is or returns. Raises Refused.

    A factory with a parameter is called with the run's config. A context manager is exited at the end.
    """
    found = project.load(entry_point)
    with contextlib.ExitStack() as stack:
        stack.callback(close_loop)
        try:
            graph = _compiled(_called(found, config, stack))
        except Refused:
            raise
        except Exception as error:
            raise Refused(
                "langgraph.entry_point_failed",
                entry_point=entry_point,
                kind=type(error).__name__,
                error=error,
            ) from error
        if not is_graph(graph):
            raise Refused(
                "langgraph.entry_point_not_graph", entry_point=entry_point, found=type(graph).__name__
            )
        yield graph


def is_graph(value: Any) -> bool:
    """Return whether this is a compiled graph of the engine, in any of its versions."""
    return all(hasattr(value, name) for name in ("nodes", "channels", "stream", "update_state", "get_state"))


def _called(found: Any, config: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    if is_graph(found) or hasattr(found, "compile") or not callable(found):
        return found
    required = [
        one
        for one in inspect.signature(found).parameters.values()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    return entered(found(config) if required else found(), stack, is_graph)


def entered(made: Any, stack: contextlib.ExitStack, is_done: Callable[[Any], bool]) -> Any:
    """Return what a factory has made, or what it yields if it is awaited or entered until the stack's end."""
    if inspect.isawaitable(made):
        made = run_in_loop(_result(made))
    if is_done(made):
        return made
    if hasattr(made, "__aenter__"):
        return stack.enter_context(opened_in_loop(made))
    return stack.enter_context(made) if hasattr(made, "__enter__") else made


async def _result(made: Any) -> Any:
    return await made


def _compiled(found: Any) -> Any:
    return found if is_graph(found) or not hasattr(found, "compile") else found.compile()


def is_async(graph: Any) -> bool:
    """Return whether the graph must run in the event loop.

    It must if it was made there, or if one of its nodes, or of the graphs inside it, is async only.
    """
    return bool(_loops) or any(_is_async(step) for node in graph.nodes.values() for step in _steps(node))


def _steps(node: Any) -> Iterator[Any]:
    bound = getattr(node, "bound", None)
    yield bound
    yield from getattr(bound, "steps", ())


def _is_async(step: Any) -> bool:
    if is_graph(step):
        return is_async(step)
    if any(_is_async_tool(one) for one in (getattr(step, "tools_by_name", None) or {}).values()):
        return True
    has_async = getattr(step, "afunc", None) is not None
    return has_async and getattr(step, "func", None) is None


def _is_async_tool(tool: Any) -> bool:
    return getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
