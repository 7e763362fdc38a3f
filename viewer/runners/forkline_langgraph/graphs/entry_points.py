"""The graph that an entry point of the project makes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from forkline_langgraph.graphs import event_loop
from forkline_runner import project
from forkline_runner.messages import Refused


@contextlib.contextmanager
def made_by(entry_point: str, config: dict[str, Any]) -> Iterator[Any]:
    """Yield the compiled graph that an entry point is or returns. Raises Refused.

    A factory with a parameter is called with the run's config. A context manager is exited at the end.
    """
    found = project.load(entry_point)
    with contextlib.ExitStack() as stack:
        stack.callback(event_loop.close)
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
    required = [one for one in inspect.signature(found).parameters.values() if one.default is one.empty]
    made = found(config) if required else found()
    if inspect.isawaitable(made):
        made = event_loop.run(_result(made))
    if is_graph(made):
        return made
    if hasattr(made, "__aenter__"):
        return stack.enter_context(event_loop.opened(made))
    return stack.enter_context(made) if hasattr(made, "__enter__") else made


async def _result(made: Any) -> Any:
    return await made


def _compiled(found: Any) -> Any:
    return found if is_graph(found) or not hasattr(found, "compile") else found.compile()


def is_async(graph: Any) -> bool:
    """Return whether the graph must run in the event loop.

    It must if it was made there, or if one of its nodes, or of the graphs inside it, is async only.
    """
    return event_loop.is_used() or any(
        _is_async(step) for node in graph.nodes.values() for step in _steps(node)
    )


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
