"""CrewAI behind the engine protocol."""

from pathlib import Path

from viewer.engines.crewai import entry_points, labels, planning
from viewer.engines.crewai.contents import Contents, completed, contents_of
from viewer.engines.crewai.flow_plan import FlowMethod
from viewer.engines.crewai.input_names import ConditionalTasks, input_names
from viewer.engines.crewai.labels import KINDS
from viewer.engines.crewai.recorded_calls import recorded_calls, recorded_run, recorded_tools, script, spans
from viewer.engines.crewai.recorded_events import FAILED, GROUPS, WAITING, checkpoint_events
from viewer.engines.crewai.tabs import (
    ORDER,
    TABS,
    comparable,
    followed_parts,
    info,
    info_lines,
    is_tab_empty,
    run_inputs,
    search_texts,
    tab_context,
    unit_graph,
)
from viewer.engines.entry_points import Runner
from viewer.engines.protocol import Engine

RUNNERS = Path(__file__).resolve().parents[2] / "runners"


class CrewAI(Engine[Contents]):
    """The functions of this package, by the names of the protocol."""

    name = "crewai"
    title = "CrewAI"
    kinds = KINDS
    tabs = TABS
    tab_order = ORDER
    source_type = tuple[FlowMethod, ...] | ConditionalTasks | None
    distribution = "crewai"
    known_stores = labels.KNOWN_STORES
    runner = Runner(
        program=RUNNERS / "runner.py",
        module="forkline_crewai.job",
        # Telemetry would leave the machine, and nobody would answer the question on tracing at the first run.
        environment={
            "CREWAI_DISABLE_TELEMETRY": "true",
            "CREWAI_DISABLE_TRACKING": "true",
            "CREWAI_DISABLE_VERSION_CHECK": "true",
            "CREWAI_TRACING_ENABLED": "false",
            "CREWAI_TESTING": "true",
        },
    )

    contents_of = staticmethod(contents_of)
    completed = staticmethod(completed)
    units_of = staticmethod(planning.units_of)
    is_tab_empty = staticmethod(is_tab_empty)
    tab_context = staticmethod(tab_context)
    compares_steps = False
    comparable = staticmethod(comparable)
    followed_parts = staticmethod(followed_parts)
    script = staticmethod(script)
    recorded_run = staticmethod(recorded_run)
    has_all_spans_in_head = True
    spans = staticmethod(spans)
    recorded_calls = staticmethod(recorded_calls)
    recorded_tools = staticmethod(recorded_tools)
    unit_graph = staticmethod(unit_graph)
    info_lines = staticmethod(info_lines)
    info = staticmethod(info)
    search_texts = staticmethod(search_texts)
    run_inputs = staticmethod(run_inputs)

    trigger_labels = labels.LABELS
    failure_suffixes = FAILED
    waiting_suffixes = (WAITING,)
    unfinished_suffixes = ()
    is_start = staticmethod(labels.is_start)
    is_end = staticmethod(labels.is_end)
    numbered_label = staticmethod(labels.numbered_label)
    unit_subjects = labels.UNIT_SUBJECTS
    asker_labels = labels.ASKER_LABELS
    event_labels = labels.EVENT_LABELS
    event_details = labels.EVENT_DETAILS
    snippet_template = "engines/crewai/_snippet.html"
    event_groups = GROUPS
    checkpoint_events = staticmethod(checkpoint_events)

    preflight_labels = labels.PREFLIGHT_LABELS
    components_in = staticmethod(labels.components_in)
    unmatched = staticmethod(labels.unmatched)

    schema = staticmethod(planning.schema)
    editable = staticmethod(planning.editable)
    missing_prompt = staticmethod(planning.missing_prompt)
    values_read = staticmethod(planning.values_read)
    missing_code = staticmethod(planning.missing_code)
    former_values = staticmethod(planning.former_values)
    kickoff_inputs = staticmethod(planning.kickoff_inputs)
    read_source = staticmethod(planning.read_source)
    plan = staticmethod(planning.plan)
    outlook = staticmethod(planning.outlook)
    has_finished = staticmethod(planning.has_finished)
    previous_calls = staticmethod(planning.previous_calls)

    find_entry_points = staticmethod(entry_points.find_entry_points)
    entry_point_for = staticmethod(entry_points.entry_point_for)
    entry_point_kinds = staticmethod(entry_points.entry_point_kinds)
    entry_point_title = staticmethod(entry_points.title_of)
    entry_point_labels = entry_points.LABELS
    is_entry_point = staticmethod(entry_points.is_entry_point)
    input_names = staticmethod(input_names)


ENGINE = CrewAI()
