"""The inputs of a new run: what is asked for, what they were before, and which of them are given."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.crewai.kinds import KINDS
from viewer.engines.entry_points import InputName
from viewer.forms.checkpointing import Checkpointing
from viewer.forms.new_run import NewRunForm, read_new_run
from viewer.redaction.marker import MARKER

ASKED = (InputName("topic"), InputName("year", int), InputName("brief", bool), InputName("n", int, 3, True))


def read(
    sent: Mapping[str, str] | None, earlier: Mapping[str, Any] | None = None, entity: str = "crew"
) -> NewRunForm:
    return read_new_run(KINDS[entity], ASKED, earlier or {}, sent, Checkpointing())


def test_names_of_the_source_are_asked_for_with_their_types_and_defaults() -> None:
    form = read(None)
    assert [(one.name, one.kind, one.text) for one in form.inputs.fields] == [
        ("topic", "text", ""),
        ("year", "whole_number", ""),
        ("brief", "yes_no", ""),
        ("n", "whole_number", "3"),
    ]
    assert form.values == {}
    assert form.ungiven == ["topic", "year", "brief"]


def test_what_was_typed_keeps_its_type_and_what_is_empty_is_not_given() -> None:
    form = read({"input:topic": "bees", "input:year": "1999", "input:brief": "", "input:n": "3"})
    assert form.values == {"topic": "bees", "year": 1999}
    assert form.ungiven == ["brief"]
    assert not form.errors


def test_json_and_more_values_are_the_way_out() -> None:
    sent = {"input:topic": "", "input-json:topic": '["a", 1]', "input-more": '{"extra": {"deep": [1]}}'}
    assert read(sent).values == {"topic": ["a", 1], "extra": {"deep": [1]}}


def test_an_earlier_run_fills_the_fields_and_its_values_are_given_as_they_were() -> None:
    earlier = {"topic": "AI", "year": 2026, "tags": ["a", "b"]}
    form = read(None, earlier)
    assert form.values == earlier
    sent = {one.html_name: one.text for one in form.inputs.fields}
    assert read(sent, earlier).values == earlier
    sent["input:year"], sent["input:tags"] = "", "a\nc"
    assert read(sent, earlier).values == {"topic": "AI", "tags": ["a", "c"]}


def test_what_was_hidden_is_asked_for_anew_and_never_sent() -> None:
    earlier = {"topic": MARKER, "tags": {"key": MARKER}}
    form = read({"input:topic": "", "input:tags": f'{{\n  "key": "{MARKER}"\n}}'}, earlier)
    assert [error.label for error in form.errors] == ["tags"]
    assert "topic" not in form.values
    assert read({"input:topic": "new", "input:tags": "{}"}, earlier).values == {"topic": "new", "tags": {}}


def test_a_value_of_another_type_is_refused_beside_its_field() -> None:
    errors = read({"input:year": "soon"}).errors
    assert [(error.label, error.html_id) for error in errors] == [("year", "input-1")]


def test_an_agent_has_to_be_asked_something() -> None:
    assert [one.name for one in read(None, entity="agent").inputs.fields] == ["messages"]
    assert read({"input:messages": ""}, entity="agent").errors
    form = read({"input:messages": "Ask"}, entity="agent")
    assert (form.values, form.errors) == ({"messages": "Ask"}, [])
