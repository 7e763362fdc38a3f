"""LangGraph behind the engine protocol."""

from pathlib import Path

from viewer.engines.entry_points import Runner
from viewer.engines.langgraph import identifiers, labels, plan, project_source
from viewer.engines.langgraph.comparable import (
    comparable,
    edited_inputs,
    followed_parts,
    model_calls,
    run_inputs,
    search_texts,
)
from viewer.engines.langgraph.contents import Contents, contents_of
from viewer.engines.langgraph.labels import KINDS
from viewer.engines.langgraph.plan import asked_question, schema
from viewer.engines.langgraph.recorded_calls import recorded_calls, recorded_tools, spans, tools_of_code
from viewer.engines.langgraph.script import recorded_run, script
from viewer.engines.langgraph.tabs import ORDER, TABS, info, info_lines, is_tab_empty, tab_context
from viewer.engines.protocol import Engine

RUNNERS = Path(__file__).resolve().parents[2] / "runners"


class LangGraph(Engine[Contents]):
    """The functions of this package, by the names of the protocol."""

    name = "langgraph"
    title = "LangGraph"
    kinds = KINDS
    tabs = TABS
    tab_order = ORDER
    distribution = "langgraph"
    known_stores = labels.KNOWN_STORES
    runner = Runner(
        program=RUNNERS / "langgraph_runner.py",
        prewarm_module="forkline_langgraph.job",
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

    trigger_labels = labels.TRIGGER_LABELS
    failure_suffixes = (labels.FAILED,)
    waiting_suffixes = (labels.WAITING,)
    unfinished_suffixes = (labels.UNFINISHED,)
    is_start = staticmethod(labels.is_start)
    is_end = staticmethod(labels.is_end)
    unit_subjects = labels.UNIT_SUBJECTS
    asker_labels = labels.ASKER_LABELS
    asked_question = staticmethod(asked_question)
    snippet_template = "engines/langgraph/_snippet.html"
    event_labels = labels.EVENT_LABELS
    event_details = labels.EVENT_DETAILS

    preflight_labels = labels.PREFLIGHT_LABELS

    schema = staticmethod(schema)
    editable = staticmethod(plan.editable)
    edited_messages = staticmethod(plan.edited_messages)
    typed_state = staticmethod(plan.typed_state)
    kickoff_inputs = staticmethod(plan.kickoff_inputs)
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
