"""The inputs of a new run: fields, initial values, and which values the run receives."""

from collections.abc import Mapping
from typing import Any

from viewer.engines.crewai.labels import KINDS
from viewer.engines.entry_points import InputName
from viewer.redaction import MARKER
from viewer.web.launch.new_run_page import InputsForm

ASKED = (InputName("topic"), InputName("year", int), InputName("brief", bool), InputName("n", int, 3, True))


def read(
    sent: Mapping[str, str] | None, earlier: Mapping[str, Any] | None = None, entity: str = "crew"
) -> InputsForm:
    return InputsForm(sent, KINDS[entity], ASKED, earlier or {})


def labels_of(form: InputsForm) -> list[tuple[str, str]]:
    """Return the label and the id of each field with an error."""
    return [(str(form[name].label), form[name].id_for_label) for name in form.errors]


def test_input_names_of_the_source_have_fields_with_types_and_defaults() -> None:
    form = read(None)
    assert [(one.name, one.kind, one.stored_text) for one in form.value_fields.values()] == [
        ("topic", "text", ""),
        ("year", "whole_number", ""),
        ("brief", "yes_no", ""),
        ("n", "whole_number", "3"),
    ]
    assert form.given == {}
    assert form.not_given == ["topic", "year", "brief"]


def test_typed_values_keep_their_types_and_empty_ones_are_omitted() -> None:
    form = read({"input:topic": "bees", "input:year": "1999", "input:brief": "", "input:n": "3"})
    assert form.given == {"topic": "bees", "year": 1999}
    assert form.not_given == ["brief"]
    assert not form.errors


def test_other_types_and_further_inputs_are_json() -> None:
    sent = {"input:topic": "", "input-json:topic": '["a", 1]', "input-more": '{"extra": {"deep": [1]}}'}
    assert read(sent).given == {"topic": ["a", 1], "extra": {"deep": [1]}}


def test_inputs_of_an_earlier_run_are_initial_values() -> None:
    earlier = {"topic": "AI", "year": 2026, "tags": ["a", "b"]}
    form = read(None, earlier)
    assert form.given == earlier
    sent = {name: one.stored_text for name, one in form.value_fields.items()}
    assert read(sent, earlier).given == earlier
    sent["input:year"], sent["input:tags"] = "", "a\nc"
    assert read(sent, earlier).given == {"topic": "AI", "tags": ["a", "c"]}


def test_redacted_values_are_required_and_never_sent() -> None:
    earlier = {"topic": MARKER, "tags": {"key": MARKER}}
    form = read({"input:topic": "", "input:tags": f'{{\n  "key": "{MARKER}"\n}}'}, earlier)
    assert labels_of(form) == [("tags", "input-4")]
    assert "topic" not in form.given
    assert read({"input:topic": "new", "input:tags": "{}"}, earlier).given == {"topic": "new", "tags": {}}


def test_a_value_of_another_type_is_a_field_error() -> None:
    assert labels_of(read({"input:year": "soon"})) == [("year", "input-1")]


def test_an_agents_only_input_is_its_prompt() -> None:
    assert list(read(None, entity="agent").value_fields) == ["input:messages"]
    assert read({"input:messages": ""}, entity="agent").given == {}
    form = read({"input:messages": "Ask"}, entity="agent")
    assert (form.given, form.is_valid()) == ({"messages": "Ask"}, True)
