"""The request that a runner reads, and the report of a preflight check that it writes.

Types only: the runner imports nothing of the viewer.
"""

from typing import Any, Literal, Required, TypedDict

# The request.


class CheckpointReference(TypedDict):
    """The id and source of a checkpoint."""

    id: str
    source: str


class CheckpointSource(CheckpointReference, total=False):
    """``source`` is a file's absolute path, or ``/absolute/store.db#id``.

    ``stored``: the checkpoint was pruned, and ``source`` is the redacted copy in the job's folder. The run
    then needs an entry point.
    """

    stored: bool


StoreKind = Literal["json", "sqlite", "states", "postgresql", "saver"]


class LocationTarget(TypedDict):
    """The location that a run writes to. Of a database, ``path`` is only a name."""

    path: str
    store_kind: StoreKind


class OutputEdit(TypedDict, total=False):
    """Exactly one of the two: a text, or a JSON value for a task whose output is JSON."""

    text: str
    json: Any


class StepRequest(TypedDict):
    """``action`` is one of plan.Action's values."""

    task: str
    action: str


class CheckpointSettings(TypedDict, total=False):
    """How a run writes checkpoints. Missing keys: as the project or the checkpoint has it.

    ``max_checkpoints`` is how many of those that this run writes are kept; others are never deleted.
    """

    events: list[str]
    max_checkpoints: int


class RepeatedCall(TypedDict):
    """A call of a tool that would be repeated. ``result`` is None if it cannot be used as an answer."""

    tool: str
    arguments: Any
    result: str | None


class Tools(TypedDict):
    """What happens when the run calls a tool: call, ask, recorded or refuse, by the tool's name.

    Without a choice, a person is asked for a tool with a recorded call unless it is declared read-only, and
    every other tool is called. If not ``is_known``, the recorded calls could not be read, and a person is
    asked for every tool. ``dry_run``: calls are answered with recorded results or refused.
    """

    choices: dict[str, str]
    recorded: list[RepeatedCall]
    is_known: bool
    dry_run: bool


class RecordedAnswer(TypedDict):
    """An answer of a model: its text, and the tools that it requests (name, arguments and id).

    ``text`` is None if it cannot be used. ``messages`` is a digest of what it answers, empty if that cannot
    be known; ``sent`` is the last message, and ``model`` the recorded one. It is ``is_certain`` that a model
    wrote it, and not code. If ``is_in_order``, it may answer other messages.
    """

    messages: str
    sent: str
    model: str
    text: str | None
    tools: list[dict[str, Any]]
    id: str
    is_certain: bool
    is_in_order: bool


class ModelCalls(TypedDict):
    """The recorded answers that answer all model calls of the run, oldest first.

    A call with other messages than a recorded one stops the run, unless answers are used ``in_order``.
    """

    recorded: list[RecordedAnswer]
    in_order: bool


class Options(TypedDict, total=False):
    """What a person chose for a run, apart from edits.

    ``matches``: by a saved task's or agent's id, the project's own task (its number from 1) or agent (its
    role), or ``-`` if the project no longer has it.
    ``accepted``: the losses that a person accepted, ``*`` for any. If the key is present, the run is refused
    unless each loss is in the list.
    ``models``: the model for an agent's role, or for all under ``*``.
    ``cache_warmup``: parallel, sequential or shared_prefix.
    ``limits``: the run's own maximum of tokens, seconds and steps.
    ``as_node``: the node that the edited state is attributed to. ``replace``: the channels whose edited value
    replaces what their reducer would add it to. ``stop_before`` and ``stop_after``: the nodes that are
    breakpoints, ``*`` for every one. ``thread``: the one that a new run continues.
    ``into``: where a fork is published: new-thread or thread; nowhere without it. ``new_thread`` is the id of
    the thread that an earlier fork becomes.
    ``commit``: the recorded commit that runs, in a clean checkout; without it, the code in the project's
    folder. ``tools``: what happens when the run calls a tool; without it, every tool is called.
    ``model_calls``: the record that answers models; without it, they are called.
    """

    checkpoints: CheckpointSettings
    matches: dict[str, str]
    models: dict[str, str]
    cache_warmup: str
    limits: dict[str, float]
    accepted: list[str]
    as_node: str
    replace: list[str]
    stop_before: list[str]
    stop_after: list[str]
    thread: str
    into: str
    new_thread: str
    commit: str
    tools: Tools
    model_calls: ModelCalls


class Permissions(TypedDict, total=False):
    """What a runner may do. Nothing is imported from the ``protected`` paths.

    ``accepted_effects`` are the keys of the effects that were accepted for the project (``*``: any); a
    checkpoint with other effects is refused. ``entry_points`` are all of the project's.
    """

    protected: list[str]
    accepted_effects: list[str]
    entry_points: list[str]


class TypedValues(TypedDict, total=False):
    """What a person typed for a run, apart from edits. Deleted from the job's row when the job has ended.

    ``answers``: by an interrupt's id, or under an empty one if only one waits. ``configurable`` and
    ``context``: what the graph's config and runtime get.
    """

    answers: dict[str, Any]
    configurable: dict[str, Any]
    context: dict[str, Any]


class ScoredCall(TypedDict):
    """The name of a call in its checkpoint, and the job whose answer is scored; empty for the recorded."""

    name: str
    job: str


class Scoring(TypedDict, total=False):
    """Of a score: the project's function as ``module:name``, and what it is given, without secrets.

    ``expected`` is the expected answer, for a function that has a parameter of this name. ``scored_call``
    says that the contents are those of a call.
    """

    function: str
    contents: dict[str, Any]
    expected: str
    scored_call: ScoredCall


class ReplayedCall(TypedDict):
    """What is sent to a model, as a person has edited it. Deleted from the job's row when the job has ended.

    ``messages`` have a role, a text, and optionally a name, tools (name, args, id) and answers (the id of a
    tool call). ``tools`` have a name, a description and a schema. ``models`` are those that are called.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    parameters: dict[str, Any]
    models: list[str]


class ReplayModels(TypedDict):
    """How often each model is called. ``model`` and ``agent`` are those of the recorded call.

    ``models`` are the names to show, without secrets. ``recorded`` is the name of the call in its checkpoint.
    """

    models: list[str]
    times: int
    recorded: str
    model: str
    agent: str


class Replaying(TypedDict, total=False):
    """Of a replay: the edited call, and the models."""

    call: ReplayedCall
    replay: ReplayModels


class Request(Permissions, TypedValues, Scoring, Replaying):
    """What a runner does. ``inputs``, ``outputs`` and ``state`` hold only what was edited.

    A new run (kind ``run``) has all its inputs, and a checkpoint with an empty id and source. ``preflight``
    checks and runs nothing. ``effects`` only lists the effects, and imports nothing. ``next`` asks what
    an edited state would run next. ``publish`` writes an earlier fork, whose checkpoint is in a scratch
    store, to the location. ``score`` calls a function of the project with a checkpoint's contents, and
    writes nothing. ``replay`` sends a recorded model call to models of the project, and writes nothing.
    """

    job: str
    kind: Literal["resume", "fork", "run", "publish", "score", "replay", "preflight", "effects", "next"]
    checkpoint: CheckpointSource
    location: LocationTarget
    entity: str
    name: str
    branch: str
    inputs: dict[str, Any]
    outputs: dict[str, OutputEdit]
    state: dict[str, Any] | None
    steps: list[StepRequest]
    folder: str
    entry_point: str
    options: Options


# The report. The project's code may have changed it.


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
