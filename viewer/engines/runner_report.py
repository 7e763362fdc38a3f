"""The report of a preflight check, as a runner writes it. The project's code may have changed it."""

from typing import Any, Required, TypedDict


class ReportedEffect(TypedDict, total=False):
    """What the checkpoint adds to the project's own code (forkline_runner/effects.py)."""

    key: Required[str]
    kind: Required[str]
    name: Required[str]
    detail: str
    digest: str
    tool: str
    field: str
    given: str


class ReportedComponent(TypedDict, total=False):
    """A part of the run. ``fate`` is restored, project or lost, ``task`` a position, ``agent`` a role."""

    what: Required[str]
    name: Required[str]
    fate: Required[str]
    task: int
    agent: str


class ReportedQuestion(TypedDict):
    """Which task or agent of the project a saved one is. A choice is its id and title."""

    kind: str
    saved: str
    position: int
    title: str
    reason: str
    choices: list[tuple[str, str]]


class ReportedNote(TypedDict):
    """Something that does not prevent the run, such as that CrewAI alone could not write its checkpoints."""

    what: str
    detail: str


class ReportedTools(TypedDict):
    """The names of the tools of a graph's node, and whether it may run."""

    node: str
    tools: list[str]
    may_run: bool


class ReportedNext(TypedDict, total=False):
    """What a graph runs next after the edits as of a node. ``after`` has edited channels as texts."""

    node: Required[str]
    next: list[str]
    after: dict[str, str]
    error: str


class ReportedGraph(TypedDict, total=False):
    """The nodes and edges of a compiled graph, empty if it cannot be drawn.

    A node inside another graph is named ``outer/inner``; an edge is from, to, is conditional, label.
    """

    nodes: list[str]
    edges: list[tuple[str, str, bool, str]]


class Report(TypedDict, total=False):
    """What a check has found. Only with ``is_complete`` was anything imported, and is the rest known."""

    python_version: str
    engine_version: str
    # The engine version that wrote the checkpoint.
    checkpoint_version: str
    # Empty if it does not matter.
    sqlite_version: str
    effects: list[ReportedEffect]
    # Whether all effects were accepted.
    is_complete: bool
    # The project's modules that restoring or the entry point imports.
    imports: list[str]
    components: list[ReportedComponent]
    questions: list[ReportedQuestion]
    # Why the run cannot start, as messages (viewer/messages/message.py).
    blocks: list[dict[str, Any]]
    notes: list[ReportedNote]
    # Of a graph: all nodes, and those that run next.
    nodes: list[str]
    next: list[str]
    tools: list[ReportedTools]
    # Of a check of kind ``next``.
    next_by_node: list[ReportedNext]
    # The name, type (of a JSON schema) and reducer (empty if none) of each channel of a graph.
    channels: list[dict[str, Any]]
    # The name, type and default of each value that a graph's config and its context have.
    configurable: list[dict[str, Any]]
    context: list[dict[str, Any]]
    # Of the check of a new run.
    graph: ReportedGraph
