"""Whatever a stored checkpoint holds, it is read, shown, compared, searched and planned without an error."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quality.local_stores import store_at
from viewer.engines import engine_named
from viewer.engines.crewai.store_format import STORE_FORMAT
from viewer.engines.plan import EditRefused, Edits, MessageEdit
from viewer.engines.protocol import Contents, Engine
from viewer.engines.recorded_calls import SpanSource
from viewer.host.reading.snapshots import read_snapshot
from viewer.redaction.values import decoded
from viewer.stores.protocol import Entry, Foreign, RecordedIds

STORES = Path(__file__).resolve().parents[1] / "recorded_stores"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
MESSAGE = "langchain_core.messages.ai.AIMessage"
# Values as LangGraph's are decoded.
TYPES = (
    *("re.compile", "datetime.date", "datetime.time", "datetime.timedelta", "datetime.timezone", "uuid.UUID"),
    *("pathlib.PosixPath", "ipaddress.IPv4Address", "decimal.Decimal", "builtins.set", "Overwrite"),
    *(MESSAGE, "langgraph.types.Interrupt", "langgraph.types.Send", "DeltaSnapshot"),
)
FIELDS = ("content", "type", "id", "tool_calls", "usage_metadata", "value", "ns", "tzinfo", "response_schema")
TYPED = st.builds(
    lambda name, fields: {"__type__": name, "fields": fields},
    st.sampled_from(TYPES),
    VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES),
)
# Longer than any number that Python reads.
ANY = VALUES | TYPED | st.lists(TYPED, max_size=2) | st.just("9" * 5_000)
SAMPLES = {
    "crewai": ["1.15.30/json", "1.15.30/flow", "1.15.30/agent", "1.14.7/flow"],
    "langgraph": ["langgraph/lg12.db", "langgraph/lg02_76.db"],
}


@cache
def bodies(engine: str) -> list[dict[str, Any]]:
    """The first and last checkpoints of recorded stores."""
    found = []
    for path in SAMPLES[engine]:
        with store_at(STORES / path) as store:
            entries = [one for one in store.entries() if isinstance(one, Entry)]
            found += [decoded(read_snapshot(store, one).body) for one in (*entries[:3], *entries[-3:])]
    return found


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a value, with each of its keys or positions."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def damaged(data: st.DataObject, engine: str) -> dict[str, Any]:
    """A recorded checkpoint with any values in some places."""
    body: dict[str, Any] = copy.deepcopy(data.draw(st.sampled_from(bodies(engine))))
    for _ in range(data.draw(st.integers(1, 6))):
        container, key = data.draw(st.sampled_from(list(places(body)) or [(body, "metadata")]))
        container[key] = data.draw(ANY)
    return body


def shown(engine: Engine[Any], contents: Contents, before: Contents) -> Iterator[Any]:
    """Everything that pages and commands show of a checkpoint."""
    yield contents.is_of_newer_version, contents.unreadable, contents.unknown, contents.failure
    yield engine.completed(contents), engine.units_of(contents), engine.unit_graph(contents)
    for tab in engine.tab_order:
        yield engine.is_tab_empty(tab, contents), engine.tab_context(tab, contents, before)
    yield list(engine.comparable(contents, [before])), list(engine.followed_parts(contents))
    yield list(engine.search_texts(contents)), json.dumps(engine.info(contents, before), default=str)
    yield list(engine.info_lines(contents, before)), engine.run_inputs(contents)
    yield engine.edited_inputs(before, contents, list(engine.editable(contents).state or ()))
    sources = [SpanSource(name, datetime.now(UTC), one) for name, one in (("a", before), ("b", contents))]
    yield engine.spans(sources), list(engine.recorded_calls(contents)), engine.recorded_run(sources)
    yield engine.model_calls(contents), engine.schema(contents, {}), engine.kickoff_inputs(contents, "agent")
    plan = engine.whole_plan(contents, Edits(), before)
    yield plan, engine.recorded_tools(sources, plan.steps), engine.has_finished(contents, None)
    yield list(engine.values_read(contents, Edits(), plan.steps)), engine.missing_prompt(contents, Edits())


def edited(engine: Engine[Any], contents: Contents, text: str) -> Iterator[Any]:
    """The plans and values of edits to everything that may be edited."""
    editable = engine.editable(contents)
    inputs, outputs = dict(editable.inputs or {}), {one.unit: text for one in editable.outputs}
    yield engine.whole_plan(contents, Edits(inputs=inputs, outputs=outputs), again_stale=True)
    yield engine.former_values(contents, Edits(inputs=inputs))
    for name in editable.state or ():
        yield engine.whole_plan(contents, Edits(state={name: text}))
        with suppress(EditRefused):
            engine.typed_state(contents, {name: text})
    for name, messages in editable.conversations.items():
        edits = [MessageEdit(one.position, content=text, calls=one.calls) for one in messages]
        for by_id in (True, False):
            with suppress(EditRefused):
                engine.edited_messages((editable.state or {})[name], edits, by_id=by_id)


@pytest.mark.parametrize("name", list(SAMPLES))
@given(data=st.data(), text=st.sampled_from(["", "(", "2026-13-01", "1:2", "P1D", "\ud800", "[redacted]"]))
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_a_checkpoint_with_any_values_is_shown_and_edited(name: str, data: st.DataObject, text: str) -> None:
    engine = engine_named(name)
    contents, before = (engine.contents_of(damaged(data, name)) for _ in range(2))
    assert len(list(shown(engine, contents, before))) > 10
    assert list(edited(engine, contents, text))


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_a_checkpoint_of_crewai_with_any_values_is_imported_or_foreign(data: st.DataObject) -> None:
    body = json.dumps(damaged(data, "crewai")).encode()
    with suppress(Foreign):
        found = STORE_FORMAT.snapshot_of(body, Entry("a", "1", len(body)), RecordedIds("a", None, "main"))
        assert found.branch and found.units_done >= 0


def test_a_step_whose_name_is_no_text_has_no_subject() -> None:
    event = {"type": "task_started", "task_name": 5}
    body = {"entities": [], "event_record": {"nodes": {"e": {"event": event}}}, "trigger": "task_started"}
    ids = RecordedIds("a", None, "main")
    assert STORE_FORMAT.snapshot_of(json.dumps(body).encode(), Entry("a", "1", 1), ids).subject == ""


@pytest.mark.parametrize("fields", [[], ["(", "i"], [None], {}, 1])
def test_a_pattern_without_its_parts_is_shown_as_it_is_stored(fields: Any) -> None:
    engine, value = engine_named("langgraph"), {"__type__": "re.compile", "fields": fields}
    body = {"checkpoint_id": "c", "checkpoint": {"channel_values": {"rule": value}}}
    contents = engine.contents_of(body)
    assert engine.info(contents)["state"] == {"rule": value}
    assert engine.tab_context("state", contents, None)["changes"][0].channel == "rule"


def test_a_text_that_is_no_pattern_is_refused() -> None:
    engine, value = engine_named("langgraph"), {"__type__": "re.compile", "fields": ["a+", 32]}
    contents = engine.contents_of(
        {"checkpoint_id": "c", "checkpoint": {"channel_values": {"rule": value}, "versions_seen": {"n": {}}}}
    )
    with pytest.raises(EditRefused):
        engine.typed_state(contents, {"rule": "(a"})
