"""LangGraph behind the engine protocol."""

from pathlib import Path

from viewer.engines.langgraph import preflight, triggers
from viewer.engines.langgraph.comparable import comparable, followed_parts, model_calls
from viewer.engines.langgraph.contents import Contents, contents_of
from viewer.engines.langgraph.format import identifiers
from viewer.engines.langgraph.info import info, info_lines
from viewer.engines.langgraph.kinds import KINDS
from viewer.engines.langgraph.planning import editing, messages, plan
from viewer.engines.langgraph.planning.questions import asked_question
from viewer.engines.langgraph.project_source import configuration, entry_points, inputs
from viewer.engines.langgraph.run_list import run_inputs
from viewer.engines.langgraph.schema import schema
from viewer.engines.langgraph.script import script
from viewer.engines.langgraph.search_texts import search_texts
from viewer.engines.langgraph.spans import spans
from viewer.engines.langgraph.tabs import ORDER, TABS, is_tab_empty, tab_context
from viewer.engines.protocol import Engine
from viewer.engines.runner import Runner

RUNNERS = Path(__file__).resolve().parents[2] / "runners"


class LangGraph(Engine[Contents]):
    """The functions of this package, by the names of the protocol."""

    name = "langgraph"
    title = "LangGraph"
    kinds = KINDS
    tabs = TABS
    tab_order = ORDER
    distribution = "langgraph"
    runner = Runner(
        program=RUNNERS / "langgraph_runner.py",
        prewarm_module="forkline_langgraph.prewarm",
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
    model_calls = staticmethod(model_calls)
    has_all_spans_in_head = False
    spans = staticmethod(spans)
    info_lines = staticmethod(info_lines)
    info = staticmethod(info)
    search_texts = staticmethod(search_texts)
    run_inputs = staticmethod(run_inputs)

    trigger_labels = triggers.LABELS
    failure_suffixes = (triggers.FAILED,)
    waiting_suffixes = (triggers.WAITING,)
    unfinished_suffixes = (triggers.UNFINISHED,)
    is_start = staticmethod(triggers.is_start)
    is_end = staticmethod(triggers.is_end)
    unit_subjects = triggers.UNIT_SUBJECTS
    asker_labels = triggers.ASKER_LABELS
    asked_question = staticmethod(asked_question)
    snippet_template = "engines/langgraph/_snippet.html"
    event_labels = triggers.EVENT_LABELS
    event_details = triggers.EVENT_DETAILS

    preflight_labels = preflight.LABELS

    schema = staticmethod(schema)
    editable = staticmethod(editing.editable)
    edited_messages = staticmethod(messages.edited_messages)
    typed_state = staticmethod(editing.typed_state)
    kickoff_inputs = staticmethod(editing.kickoff_inputs)
    outlook = staticmethod(plan.outlook)
    plan = staticmethod(plan.plan)

    environment_file = staticmethod(configuration.environment_file)
    source_folders = staticmethod(configuration.source_folders)
    find_entry_points = staticmethod(entry_points.find_entry_points)
    named_entry_points = staticmethod(entry_points.named_entry_points)
    entry_point_for = staticmethod(entry_points.entry_point_for)
    entry_point_kinds = staticmethod(entry_points.entry_point_kinds)
    entry_point_title = staticmethod(entry_points.title_of)
    entry_point_labels = entry_points.LABELS
    is_entry_point = staticmethod(entry_points.is_entry_point)
    input_names = staticmethod(inputs.input_names)


ENGINE = LangGraph()
