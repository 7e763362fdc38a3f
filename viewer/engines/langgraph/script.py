"""Writes a Python script that repeats a fork, a resume or a new run with LangGraph itself."""

from dataclasses import replace
from typing import Any

from viewer.engines.langgraph.channels import messages_in
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.super_steps import mapping
from viewer.engines.recorded_calls import Sources
from viewer.engines.reproduction import RecordedRun, Reproduction, heading, literal, loaded
from viewer.redaction import MARKER

# The copy of the store. A fork in the thread's own store would move the head of the thread.
COPY = "fork.sqlite"
_TITLES = {
    "fork": "Fork a thread with LangGraph, in a copy of its store.",
    "resume": "Continue a thread with LangGraph.",
    "run": "Run a graph with LangGraph.",
}


def script(what: Reproduction) -> str:
    """The script's source. A fork runs on a copy of the store; a resume or new run writes to the store."""
    store = what.source.rpartition("#")[0] or what.location
    values, objects = _without_objects(what)
    lines = heading(replace(what, missing=(*what.missing, *objects)), _TITLES[what.kind])
    lines += [
        "import sqlite3",
        "",
        "from langgraph.checkpoint.sqlite import SqliteSaver",
        "from langgraph.types import Command",
        *loaded(what.entry_point, "graph")[:1],
        "",
        *loaded(what.entry_point, "graph")[2:],
        'if callable(graph) and not hasattr(graph, "stream") and not hasattr(graph, "compile"):',
        "    graph = graph()",
        'if hasattr(graph, "compile"):',
        "    graph = graph.compile()",
        "",
        *_store(what, store),
        "graph.checkpointer = SqliteSaver(connection)",
        f"config = {literal({'configurable': _configurable(what)})}",
    ]
    if values:
        lines += _update(what, values)
    lines += ["", f"result = graph.invoke({_given(what)}, config{_context(what)})", "print(result)"]
    return "\n".join([*lines, ""])


def _store(what: Reproduction, store: str) -> list[str]:
    if what.kind != "fork":
        return [f"connection = sqlite3.connect({store!r}, check_same_thread=False)"]
    return [
        "# A fork in the store itself would move the head of the thread.",
        f"connection = sqlite3.connect({COPY!r}, check_same_thread=False)",
        f'with sqlite3.connect("file:" + {store!r} + "?mode=ro", uri=True) as original:',
        "    original.backup(connection)",
        "# What its tasks wrote before, such as earlier answers, is not reused.",
        "connection.execute(",
        '    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_id = ?",',
        f"    ({what.run_key!r}, {what.checkpoint_id!r}),",
        ")",
        "connection.commit()",
    ]


def _configurable(what: Reproduction) -> dict[str, Any]:
    own = what.settings.get("configurable", {})
    if what.kind != "fork":
        return {"thread_id": what.run_key or "reproduced", **own}
    return {"thread_id": what.run_key, "checkpoint_ns": "", "checkpoint_id": what.checkpoint_id, **own}


def _context(what: Reproduction) -> str:
    context = what.settings.get("context", {})
    return f", context={literal(dict(context))}" if context else ""


def _update(what: Reproduction, values: dict[str, Any]) -> list[str]:
    """The lines that write the edited state as a checkpoint."""
    lines = ["", f"values = {literal(values)}"]
    if replaced := [name for name in what.replace if name in values]:
        lines += [
            "from langgraph.types import Overwrite",
            "",
            f"for name in {literal(replaced)}:",
            "    values[name] = Overwrite(values[name])",
        ]
    as_node = f", as_node={what.as_node!r}" if what.as_node else ""
    return [*lines, f"config = graph.update_state(config, values{as_node})"]


def _given(what: Reproduction) -> str:
    """The source of the argument of ``invoke``: an input, answers, or None to continue."""
    if what.kind == "run":
        return literal(dict(what.inputs))
    if not what.answers:
        return "None"
    answers = dict(what.answers)
    return f"Command(resume={literal(answers[''] if set(answers) == {''} else answers)})"


def _without_objects(what: Reproduction) -> tuple[dict[str, Any], list[str]]:
    """The edited values that can be written as Python source, and the names of the other edited values."""
    objects = [name for name, value in what.state.items() if _holds_object(value)]
    return {name: value for name, value in what.state.items() if name not in objects}, objects


def _holds_object(value: Any) -> bool:
    if isinstance(value, dict):
        return "__type__" in value or "__opaque__" in value or any(map(_holds_object, value.values()))
    return isinstance(value, list) and any(map(_holds_object, value))


def recorded_run(sources: Sources) -> RecordedRun | None:
    """The turns of a thread with the answers to its interrupts, and its state in the end.

    None for a thread with a fork, an edited state, or an input that holds an object. Messages of the state
    are their roles and texts. Values of the state that hold an object or a secret are not expected.
    """
    known = [one.contents for one in sources if isinstance(one.contents, Contents)]
    turns = list[dict[str, Any]]()
    for contents in known:
        if contents.source in ("fork", "update"):
            return None
        if contents.source == "input":
            values = mapping(contents.checkpoint.get("channel_values")).get("__start__")
            given = {name: _input(value) for name, value in mapping(values).items()}
            if not given or _holds_object(given):
                return None
            turns.append({"input": given, "answers": {}})
        for task in contents.tasks if turns else ():
            if _holds_object(list(task.answers)):
                return None
            turns[-1]["answers"].setdefault(task.node, []).extend(task.answers)
    if not turns or known[0].source != "input":
        return None
    expected = {name: _expected(value) for name, value in known[-1].channels.items()}
    return RecordedRun(turns, {name: value for name, value in expected.items() if value is not None})


def _input(value: Any) -> Any:
    """The value as a person would write it: messages are their roles and contents."""
    messages = messages_in(value)
    if not messages or any(one.others or one.calls or one.answers_call for one in messages):
        return value
    return [{"role": one.role, "content": one.text} for one in messages]


def _expected(value: Any) -> Any:
    if messages := messages_in(value):
        found: Any = [[one.role, one.text] for one in messages]
    else:
        found = None if _holds_object(value) else value
    return None if MARKER in str(found) else found
