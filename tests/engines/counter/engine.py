"""The counter behind the engine protocol."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viewer.engines.contents import Agent, Failure, Part, SearchText, Section, Tab, TextKind, parts_of
from viewer.engines.entry_points import (
    EntryPoint,
    EntryPointLabels,
    EventGroup,
    InputName,
    PreflightLabels,
    RootKind,
    Runner,
)
from viewer.engines.plan import (
    NO_SCHEMA,
    Action,
    Editable,
    EditableOutput,
    EditRefused,
    Edits,
    Outlook,
    Reason,
    Schema,
    Step,
    StoredValue,
    Unit,
)
from viewer.engines.protocol import Engine
from viewer.engines.recorded_calls import Reproduction, Sources, Span
from viewer.messages.message import plain_text

COUNTING = RootKind(
    name="counting",
    label="counting",
    unit_label="count",
    units_label="counts",
    can_rerun=True,
    can_edit_outputs=True,
    has_state=True,
    can_add_inputs=False,
    usual_events="step",
)


@dataclass(frozen=True, slots=True)
class Contents:
    """A decoded checkpoint. ``counts`` are the units' counts, in the engine's order."""

    kind: str
    name: str
    id: str
    engine_version: str
    counts: Mapping[str, int]
    limit: int
    state: Mapping[str, Any]
    inputs: Mapping[str, Any]
    agents: tuple[Agent, ...] = ()
    events: tuple[Any, ...] = ()
    checkpoint_events: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unreadable: Mapping[str, Any] = field(default_factory=dict)
    is_of_newer_version: bool = False
    engine: str = "counter"
    failure: Failure | None = None


def contents_of(body: Mapping[str, Any]) -> Contents:
    units, state, limit = body.get("units"), body.get("state"), body.get("limit")
    counts = (
        {name: count for name, count in units.items() if isinstance(count, int)}
        if isinstance(units, dict)
        else {}
    )
    return Contents(
        kind="counting" if counts else "unknown",
        name="sheep",
        id=str(body.get("id") or ""),
        engine_version=str(body.get("counter") or ""),
        counts=counts,
        limit=limit if isinstance(limit, int) else 0,
        state=state if isinstance(state, dict) else {},
        inputs={},
    )


def units_of(contents: Contents) -> list[Unit]:
    return [
        Unit(name, name, done=count >= contents.limit, count=count) for name, count in contents.counts.items()
    ]


def plan(contents: Contents, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
    units = units_of(contents)
    known = {unit.id for unit in units}
    for name in (*edits.outputs, *edits.again, *edits.keep):
        if name not in known:
            raise EditRefused(plain_text(f"There is no count {name!r} in this checkpoint."))
    return [
        Step(unit.id, position, unit.title, "", *_action(unit, edits))
        for position, unit in enumerate(units, 1)
    ]


def _action(unit: Unit, edits: Edits) -> tuple[Action, Reason]:
    if not unit.done:
        return Action.RUNS, Reason.UNFINISHED
    if unit.id in edits.outputs:
        return Action.EDITED, Reason.EDITED
    return (Action.AGAIN, Reason.REQUESTED) if unit.id in edits.again else (Action.KEPT, Reason.FINISHED)


def schema(contents: Contents | None, report: Mapping[str, Any]) -> Schema:
    return NO_SCHEMA


def editable(contents: Contents) -> Editable:
    outputs = tuple(
        EditableOutput(unit.id, position, unit.title, "", str(unit.count), {"count": unit.count})
        for position, unit in enumerate(units_of(contents), 1)
        if unit.done
    )
    return Editable(state=contents.state, outputs=outputs)


def values_read(contents: Contents, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
    for name, value in contents.state.items():
        if name not in (edits.state or {}):
            yield StoredValue(plain_text(f"{name} in the state"), value)


def find_entry_points(folder: Path) -> tuple[EntryPoint, ...]:
    """Every function of the folder's modules whose name starts with ``count_``."""
    found = []
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("count_"):
                found.append(EntryPoint(f"{path.stem}:{node.name}", "counting"))
    return tuple(found)


class Counter(Engine[Contents]):
    """The functions of this module, by the names of the protocol."""

    name = "counter"
    title = "Counter"
    kinds = {COUNTING.name: COUNTING}
    tab_order = ("overview", "counts", "events", "raw")
    tabs = (Tab("counts", "Counts", "engines/counter/_counts.html"),)
    distribution = "counter"
    snippet_template = "engines/counter/_counts.html"
    runner = Runner(Path(__file__).with_name("runner.py"), "counter_prewarm", {"COUNTER_QUIET": "yes"})
    unit_subjects = ("count",)
    has_all_spans_in_head = True

    @staticmethod
    def spans(sources: Sources) -> list[Span]:
        return []

    event_labels = {"count_started": "Counts %(count)s", "count_completed": "Counted %(count)s"}
    event_details: Mapping[str, str] = {}
    trigger_labels = {"step": "step counted", "step_failed": "step failed"}
    asker_labels: Mapping[str, str] = {}
    preflight_labels = PreflightLabels()
    entry_point_labels = EntryPointLabels("Counters are functions.", "module:count_name", "farm:count_sheep")
    failure_suffixes = ("_failed",)
    waiting_suffixes = ()
    unfinished_suffixes = ()

    contents_of = staticmethod(contents_of)
    units_of = staticmethod(units_of)
    plan = staticmethod(plan)
    schema = staticmethod(schema)
    editable = staticmethod(editable)
    values_read = staticmethod(values_read)
    find_entry_points = staticmethod(find_entry_points)

    def named_entry_points(self, folder: Path) -> Mapping[str, str]:
        return {point.name.upper(): point.name for point in find_entry_points(folder)}

    def tab_context(self, tab: str, contents: Contents, before: Contents | None) -> dict[str, Any]:
        return {"counts": dict(contents.counts)}

    compares_steps = False

    def script(self, what: Reproduction) -> str:
        return f"print({what.source!r})\n"

    def comparable(self, contents: Contents, steps: Sequence[Contents] = ()) -> Iterator[Part]:
        yield from parts_of(Section.STATE, contents.state)
        yield from parts_of(Section.OUTPUTS, contents.counts)

    def followed_parts(self, contents: Contents) -> Iterator[Part]:
        yield from self.comparable(contents)

    def info(self, contents: Contents, first: Contents | None = None) -> dict[str, Any]:
        return {"counts": dict(contents.counts), "limit": contents.limit, "state": dict(contents.state)}

    def run_inputs(self, contents: Contents) -> Mapping[str, Any]:
        return contents.state

    def info_lines(self, contents: Contents, first: Contents | None = None) -> Iterator[str]:
        yield from (f"{name}: {count} of {contents.limit}" for name, count in contents.counts.items())

    def search_texts(self, contents: Contents) -> Iterator[SearchText]:
        for name, count in contents.counts.items():
            yield SearchText(TextKind.OUTPUT, f"{name}: {count}", "tab=counts", name)

    def is_start(self, trigger: str) -> bool:
        return False

    def is_end(self, trigger: str) -> bool:
        return trigger == "end"

    def outlook(self, contents: Contents, source: Any = None) -> Outlook:
        return Outlook()

    def kickoff_inputs(self, contents: Contents, kind: str) -> Mapping[str, Any]:
        return contents.inputs

    def entry_point_for(self, folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
        return entry_points[0] if len(entry_points) == 1 else ""

    def entry_point_kinds(self, folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(entry_points, "counting")

    def entry_point_title(self, entry_point: str) -> str:
        return entry_point.partition(":")[2]

    def is_entry_point(self, text: str) -> bool:
        return text.partition(":")[2].startswith("count_")

    def input_names(self, folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
        return ()

    def checkpoint_events(self, interpreter: Path | None) -> tuple[EventGroup, ...]:
        return (EventGroup("step", ("step",)),)


ENGINE = Counter()
