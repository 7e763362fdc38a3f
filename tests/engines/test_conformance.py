"""What every engine keeps to, whatever it is: one suite, run for each."""

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from quality.local_stores import store_at
from tests.engines.conftest import write_counts
from viewer import engines
from viewer.engines import engine_named, packages
from viewer.engines.plan import EditRefused, Edits
from viewer.engines.protocol import Engine
from viewer.engines.recorded_calls import SpanSource
from viewer.host.reading.snapshots import read_snapshot
from viewer.redaction.values import decoded
from viewer.stores.json_folder import JsonFolder
from viewer.stores.protocol import Entry, ReadLimits, Snapshot, Unreadable

STORES = Path(__file__).resolve().parents[1] / "recorded_stores"
# Source that no engine may execute.
TRAP = 'from pathlib import Path\nPath(__file__).with_name("executed").touch()\n'


@dataclass(frozen=True)
class Sample:
    """An engine with a store that it wrote, and source of a project with one entry point."""

    engine: Engine[Any]
    store: Path
    source: str
    package: str
    # Other files of the project, by name.
    files: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(params=["crewai", "langgraph", "counter"])
def sample(request: pytest.FixtureRequest, counter_engine: str, tmp_path: Path) -> Sample:
    """Return a sample of each engine. A new engine adds one."""
    engine = engine_named(request.param)
    if request.param == "counter":
        for number in range(4):
            write_counts(tmp_path / "counts", number)
        return Sample(engine, tmp_path / "counts", "def count_sheep(): ...\n", packages("counter")[0])
    if request.param == "langgraph":
        source = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()\n"
        files = {"langgraph.json": '{"graphs": {"agent": "./project.py:graph"}}'}
        return Sample(engine, STORES / "langgraph/lg12.db", source, packages("langgraph")[0], files)
    source = "from crewai import Crew\ndef build() -> Crew: ...\n"
    return Sample(engine, STORES / "1.15.30/json", source, packages("crewai")[0])


def snapshots(sample: Sample) -> Iterator[Snapshot]:
    with store_at(sample.store) as store:
        for entry in store.entries():
            assert isinstance(entry, Entry)
            yield read_snapshot(store, entry)


def contents(sample: Sample) -> list[Any]:
    bodies = [decoded(snapshot.body) for snapshot in snapshots(sample)]
    return [sample.engine.contents_of(body) for body in bodies]


def test_it_recognises_its_own_stores_among_those_of_all_engines(sample: Sample) -> None:
    assert {snapshot.engine for snapshot in snapshots(sample)} == {sample.engine.name}


def test_snapshots_have_stable_keys_and_ids(sample: Sample) -> None:
    first, second = list(snapshots(sample)), list(snapshots(sample))
    assert first and [one.key for one in first] == [one.key for one in second]
    assert [one.fingerprint for one in first] == [one.fingerprint for one in second]
    ids = [one.checkpoint_id for one in first]
    assert all(ids) and len(set(ids)) == len(ids)
    assert {one.parent_id for one in first if one.parent_id} <= set(ids)
    assert all(one.units_done >= 0 and one.branch and one.run_key for one in first)


def test_bytes_that_are_not_a_checkpoint_are_refused(sample: Sample, tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    for number, text in enumerate(("{}", "[]", '{"some": "json"}', "{", "", "null", '{"counter": "x"}')):
        (folder / f"{number}.json").write_text(text)
    with JsonFolder(folder, ReadLimits(), [engines.store_format_in(sample.package)]) as store:
        for entry in store.entries():
            assert isinstance(entry, Entry)
            with pytest.raises(Unreadable):
                read_snapshot(store, entry)


@pytest.mark.parametrize("body", [{}, {"entities": 1, "units": 1}, {"state": [], "units": {"a": None}}])
def test_reading_a_hostile_copy_raises_nothing(sample: Sample, body: dict[str, Any]) -> None:
    read = sample.engine.contents_of(body)
    assert read.kind == "unknown" and read.engine == sample.engine.name
    sample.engine.editable(read)
    list(sample.engine.info_lines(read))
    sample.engine.outlook(read)
    list(sample.engine.search_texts(read))
    sample.engine.spans([SpanSource("c", datetime.now(UTC), read)])
    assert sample.engine.spans([]) == []


def test_a_stored_copy_gives_the_contents_of_its_snapshot(sample: Sample) -> None:
    for snapshot, read in zip(snapshots(sample), contents(sample), strict=True):
        assert (read.kind, read.engine) == (snapshot.entity, sample.engine.name)
        assert read.kind in sample.engine.kinds
        assert read.name == snapshot.name and read.engine_version == snapshot.engine_version
        json.dumps(sample.engine.info(read), default=str)


def test_the_search_finds_texts_on_a_tab_of_the_checkpoint(sample: Sample) -> None:
    found = [text for read in contents(sample) for text in sample.engine.search_texts(read)]
    assert any(text.unit for text in found)
    for text in found:
        tab = dict(parse_qsl(text.query_string))["tab"]
        assert tab in sample.engine.tab_order and isinstance(text.text, str)


def test_the_plan_names_every_unit_once(sample: Sample) -> None:
    for read in contents(sample):
        try:
            steps = sample.engine.plan(read, Edits())
        except EditRefused:
            # What another run called does not run alone.
            continue
        units = sample.engine.units_of(read)
        assert [step.unit for step in steps] == [unit.id for unit in units]
        assert [step.position for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.title for step in steps)


def test_an_edit_of_a_missing_unit_is_refused(sample: Sample) -> None:
    for read in contents(sample):
        with pytest.raises(EditRefused):
            sample.engine.plan(read, Edits(again=frozenset(["no such unit"])))


def test_editable_values_keep_their_types_as_json(sample: Sample) -> None:
    for read in contents(sample):
        editable = sample.engine.editable(read)
        for value in [*(editable.state or {}).values(), *(output.value for output in editable.outputs)]:
            again = json.loads(json.dumps(value))
            assert again == value and type(again) is type(value)
        units = {unit.id for unit in sample.engine.units_of(read) if unit.done}
        assert {output.unit for output in editable.outputs} <= units


def test_no_label_is_empty(sample: Sample) -> None:
    engine = sample.engine
    assert engine.name and engine.title and engine.distribution and engine.kinds
    for name, kind in engine.kinds.items():
        assert name == kind.name and kind.label and kind.unit_label and kind.units_label
    assert all(tab.name and tab.label and tab.template for tab in engine.tabs)
    labels = {**engine.trigger_labels, **engine.event_labels}
    assert labels and all(label.strip() for label in labels.values())


def test_the_runner_is_a_program_that_reports_its_start_checkpoints_and_end(sample: Sample) -> None:
    program = sample.engine.runner.program
    assert program.is_file() and sample.engine.runner.module
    folders = [program, *program.parent.rglob("*.py")]
    text = "\n".join(path.read_text() for path in folders if path.is_file())
    for kind in ("started", "checkpoint", "ended"):
        assert f'"{kind}"' in text
    assert sample.engine.unit_subjects


def test_an_empty_preflight_report_has_no_components(sample: Sample) -> None:
    assert sample.engine.components_in({}) == sample.engine.unmatched({}, {}) == []


def test_entry_points_are_found_without_running_the_source(sample: Sample, tmp_path: Path) -> None:
    for name, text in {**sample.files, "project.py": TRAP + sample.source}.items():
        (tmp_path / name).write_text(text)
    engine = sample.engine
    (point,) = engine.find_entry_points(tmp_path)
    assert point.kind in engine.kinds and engine.is_entry_point(point.name)
    assert engine.entry_point_kinds(tmp_path, [point.name]) == {point.name: point.kind}
    assert engine.entry_point_for(tmp_path, [point.name], point.kind, "") == point.name
    assert set(engine.named_entry_points(tmp_path).values()) <= {point.name}
    assert engine.entry_point_title(point.name)
    assert engine.is_entry_point(engine.entry_point_labels.example)
    engine.input_names(tmp_path, point.name, point.kind)
    engine.read_source(tmp_path, point.name, point.kind)
    assert not (tmp_path / "executed").exists() and "project" not in sys.modules


def test_its_code_imports_neither_django_nor_the_engine_itself(sample: Sample) -> None:
    folder = Path(__file__).resolve().parents[2] / sample.package.replace(".", "/")
    for path in folder.rglob("*.py"):
        if path.name in ("runner.py", "worker_settings.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"django", sample.engine.distribution}, path
