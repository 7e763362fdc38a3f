"""LangGraph behind the engine protocol: its functions, and labels of what a person runs with it."""

from pathlib import Path

from viewer.engines.entry_points import PreflightLabels, RootKind, Runner
from viewer.engines.langgraph import identifiers, plan, project_source
from viewer.engines.langgraph.contents import Contents, contents_of, kickoff_inputs
from viewer.engines.langgraph.plan import asked_question, schema
from viewer.engines.langgraph.recorded_calls import (
    recorded_calls,
    recorded_run,
    recorded_tools,
    script,
    spans,
    tools_of_code,
)
from viewer.engines.langgraph.tables import MAX_ROWS
from viewer.engines.langgraph.tabs import (
    ORDER,
    TABS,
    comparable,
    edited_inputs,
    followed_parts,
    info,
    info_lines,
    is_tab_empty,
    model_calls,
    run_inputs,
    search_texts,
    tab_context,
)
from viewer.engines.langgraph.threads.rows import ENDED, FAILED, KIND, SOURCES, UNFINISHED, WAITING
from viewer.engines.protocol import Engine, KnownStore
from viewer.messages.catalog import gettext_noop as _

# What a person runs with LangGraph: a graph.


GRAPH = RootKind(
    name=KIND,
    label=_("graph"),
    unit_label=_("node"),
    units_label=_("nodes"),
    has_state=True,
    can_add_inputs=False,
    needs_entry_point=_("A graph needs its own code to continue: choose the graph, or add its project."),
    no_steps=_("The graph decides which nodes run next."),
    adds_to_state=True,
    forks_on_copy=True,
    max_listed=MAX_ROWS,
    fork_targets=(
        ("scratch", _("Keep as a draft (in Forkline only)")),
        ("new-thread", _("A new thread at the location")),
        ("thread", _("This thread: moves its head")),
    ),
    published_hint=_(
        "Other threads do not change. The new thread begins with a copy of the forked checkpoint;"
        " earlier checkpoints stay in their own thread."
    ),
    run_label=_("Thread"),
    copies_origin=True,
    published_name=_("Name of the new thread"),
    published_name_hint=_("Its thread_id, by which your program continues it."),
    moves_head=_(
        "This moves the head of the thread: its next turn continues from the fork. The checkpoints that it "
        "has stay as they are."
    ),
    has_run_settings=True,
    needs_source=True,
    target_on_other_host="new-thread",
    sends_store=True,
    writes_folders=False,
    resumes_last_only=True,
    always_has_effects=True,
    new_run=_("The graph runs from its start, on a new thread."),
)
KINDS = {kind.name: kind for kind in (GRAPH,)}
KNOWN_STORES = (
    KnownStore(_("Deep Agents sessions"), "~/.deepagents/.state/sessions.db"),
    KnownStore(_("Deep Agents sessions"), "~/.deepagents/sessions.db"),
    KnownStore(_("LangGraph development server"), ".langgraph_api/checkpoints.sqlite"),
    KnownStore(
        _("LangGraph development server"),
        ".langgraph_api/.langgraph_checkpoint.*.pckl",
        advice="engines/langgraph/_pickled.html",
    ),
)


# The triggers of LangGraph's checkpoints: the ``source``, and for the head of a branch a suffix.


TRIGGER_LABELS = {
    "input": _("input"),
    "loop": _("start of the graph"),
    "update": _("state updated"),
    "fork": _("replayed"),
    **{
        f"{source}{suffix}": label
        for source in SOURCES
        for suffix, label in (
            (FAILED, _("failed")),
            (WAITING, _("waiting for an answer")),
            (ENDED, _("ended")),
            (UNFINISHED, _("not finished")),
        )
    },
}
# The subject of the runner's events of nodes: ``<subject>_started``, ``_completed`` and ``_failed``.
UNIT_SUBJECTS = ("node",)
ASKER_LABELS = {"node": _("Node %(value)s")}
EVENT_LABELS = {
    "node_started": _("%(node)s started"),
    "node_completed": _("%(node)s completed"),
    "node_failed": _("%(node)s failed"),
    "node_retried": _("%(node)s failed and is tried again"),
    "node_interrupted": _("%(node)s waits for an answer"),
    "published": _("Published as thread %(thread)s"),
    "custom": _("A node reported progress"),
}
EVENT_DETAILS = {"node_completed": "output", "node_retried": "error", "custom": "value"}


def is_start(trigger: str) -> bool:
    """Whether the checkpoint was written when an input arrived."""
    return trigger in ("input", f"input{UNFINISHED}")


def is_end(trigger: str) -> bool:
    """Whether nothing is left to run after the checkpoint."""
    return trigger in {f"{source}{ENDED}" for source in ("loop", "update", "fork")}


# Labels for the preflight check of a graph. A graph has no components that may be lost.


PREFLIGHT_LABELS = PreflightLabels(
    of_unit=_("node %(position)d: %(text)s"),
    notes={
        "next": _("Next in the graph: %(detail)s"),
        "memory": _(
            "With this version of LangGraph, a fork runs subgraphs without what they remember: %(detail)s"
        ),
    },
)


# LangGraph behind the engine protocol.


RUNNERS = Path(__file__).resolve().parents[2] / "runners"


class LangGraph(Engine[Contents]):
    """The functions of this package, by the names of the protocol."""

    name = "langgraph"
    title = "LangGraph"
    kinds = KINDS
    tabs = TABS
    tab_order = ORDER
    distribution = "langgraph"
    known_stores = KNOWN_STORES
    runner = Runner(
        program=RUNNERS / "runner.py",
        module="forkline_langgraph.job",
        # LangGraph reads this once, when it is imported. It then deserializes only allowed classes.
        environment={"LANGGRAPH_STRICT_MSGPACK": "true"},
    )

    contents_of = staticmethod(contents_of)
    units_of = staticmethod(plan.units_of)
    calling_units = staticmethod(identifiers.calling_nodes)
    is_tab_empty = staticmethod(is_tab_empty)
    tab_context = staticmethod(tab_context)
    compares_steps = True
    comparable = staticmethod(comparable)
    followed_parts = staticmethod(followed_parts)
    script = staticmethod(script)
    recorded_run = staticmethod(recorded_run)
    model_calls = staticmethod(model_calls)
    has_all_spans_in_head = False
    spans = staticmethod(spans)
    recorded_calls = staticmethod(recorded_calls)
    recorded_tools = staticmethod(recorded_tools)
    tools_of_code = staticmethod(tools_of_code)
    info_lines = staticmethod(info_lines)
    info = staticmethod(info)
    search_texts = staticmethod(search_texts)
    run_inputs = staticmethod(run_inputs)
    edited_inputs = staticmethod(edited_inputs)

    trigger_labels = TRIGGER_LABELS
    failure_suffixes = (FAILED,)
    waiting_suffixes = (WAITING,)
    unfinished_suffixes = (UNFINISHED,)
    is_start = staticmethod(is_start)
    is_end = staticmethod(is_end)
    unit_subjects = UNIT_SUBJECTS
    asker_labels = ASKER_LABELS
    asked_question = staticmethod(asked_question)
    snippet_template = "engines/langgraph/_snippet.html"
    event_labels = EVENT_LABELS
    event_details = EVENT_DETAILS

    preflight_labels = PREFLIGHT_LABELS

    schema = staticmethod(schema)
    editable = staticmethod(plan.editable)
    edited_messages = staticmethod(plan.edited_messages)
    typed_state = staticmethod(plan.typed_state)
    kickoff_inputs = staticmethod(kickoff_inputs)
    outlook = staticmethod(plan.outlook)
    plan = staticmethod(plan.plan)

    environment_file = staticmethod(project_source.environment_file)
    source_folders = staticmethod(project_source.source_folders)
    find_entry_points = staticmethod(project_source.find_entry_points)
    named_entry_points = staticmethod(project_source.named_entry_points)
    entry_point_for = staticmethod(project_source.entry_point_for)
    entry_point_kinds = staticmethod(project_source.entry_point_kinds)
    entry_point_title = staticmethod(project_source.title_of)
    entry_point_labels = project_source.LABELS
    is_entry_point = staticmethod(project_source.is_entry_point)
    saver_of = staticmethod(project_source.saver_of)
    input_names = staticmethod(project_source.input_names)


ENGINE = LangGraph()
