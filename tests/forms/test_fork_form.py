"""The fork form: typed fields, edits of changed fields only, and errors at their fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.forms.samples import agent, crew, flow, task
from viewer.engines import engine_of
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.labels import KINDS
from viewer.launching.edits import ValueKind
from viewer.web.launch import edits as fork_form
from viewer.web.launch.edits import EntryPointForm, ForkForm, OutputsForm, ValuesForm
from viewer.web.launch.page import FieldError, errors_of

INPUTS: dict[str, Any] = {
    "topic": "AI",
    "year": 2026,
    "weight": 0.5,
    "draft": True,
    "sources": ["arXiv", "HN"],
    "pages": [1, 2],
    "options": {"tone": "calm"},
    "nothing": None,
    "digits": "3",
}


@dataclass(frozen=True)
class Edited:
    """The edits of the forms of a fork, with their fields and errors."""

    inputs: ValuesForm | None
    state: ValuesForm | None
    outputs: OutputsForm

    @property
    def edits(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the edits of the inputs, the outputs and the state."""
        inputs, state = (form.changes if form else {} for form in (self.inputs, self.state))
        return inputs, self.outputs.changes, state

    @property
    def errors(self) -> list[FieldError]:
        forms = [form for form in (self.inputs, self.state, self.outputs) if form]
        return [error for form in forms for error in errors_of(form)]


def read(contents: Contents, sent: Mapping[str, str] | None) -> Edited:
    editable = engine_of(contents).editable(contents)
    can_add = KINDS[contents.kind].can_add_inputs
    return Edited(
        None if editable.inputs is None else ValuesForm(sent, "input", editable.inputs, can_add=can_add),
        None if editable.state is None else ValuesForm(sent, "state", editable.state),
        OutputsForm(sent, editable.outputs),
    )


def first(contents: Contents) -> Edited:
    return read(contents, None)


def fields_of(form: Edited) -> dict[str, str]:
    """Return what a browser sends for an unchanged form."""
    sent = {}
    for group in (form.inputs, form.state):
        for name, field in group.value_fields.items() if group else ():
            sent[name] = field.stored_text.replace("\n", "\r\n")
            if field.json_name:
                sent[field.json_name] = ""
        if group and group.more_name in group.fields:
            sent[group.more_name] = ""
    return sent | {field.name: field.value().replace("\n", "\r\n") for field in form.outputs}


def edited(contents: Contents, **changes: str) -> Edited:
    """Return the forms sent with these changes; two underscores mean a colon."""
    named = {
        name.replace("__", ":").replace("_json", "-json").replace("_more", "-more"): value
        for name, value in changes.items()
    }
    return read(contents, fields_of(first(contents)) | named)


def test_an_unchanged_form_has_no_edits() -> None:
    contents = crew([task(1, "one\ntwo"), task(2, {"raw": "", "json_dict": {"b": 1, "a": 2}})], INPUTS)
    form = edited(contents)
    assert form.errors == []
    assert form.edits == ({}, {}, {})


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("topic", "ML", "ML"),
        ("topic", "3", "3"),
        ("topic", "", ""),
        ("year", "2030", 2030),
        ("year", " -1 ", -1),
        ("weight", "2", 2.0),
        ("draft", "false", False),
        ("sources", "arXiv\r\n\r\nHN \r\nACM", ["arXiv", "HN", "ACM"]),
        ("pages", "[2, 1]", [2, 1]),
        ("options", '{"tone": "loud", "n": 1.0}', {"tone": "loud", "n": 1.0}),
        ("nothing", '"something"', "something"),
        ("digits", "4", "4"),
    ],
)
def test_an_edited_input_keeps_its_type(name: str, typed: str, value: Any) -> None:
    form = edited(crew([task(1)], INPUTS), **{f"input__{name}": typed})
    assert form.errors == []
    assert form.edits[0] == {name: value}
    assert type(form.edits[0][name]) is type(value)


@pytest.mark.parametrize(
    ("name", "typed", "value"), [("year", '"2030"', "2030"), ("digits", "3", 3), ("sources", "null", None)]
)
def test_json_changes_the_type_of_an_input(name: str, typed: str, value: Any) -> None:
    form = edited(crew([task(1)], INPUTS), **{f"input_json__{name}": typed})
    assert form.edits[0] == {name: value}
    assert type(form.edits[0][name]) is type(value)


def test_json_of_the_stored_value_is_no_edit() -> None:
    assert edited(crew([task(1)], INPUTS), input_json__year="2026").edits[0] == {}


def test_an_invalid_value_is_a_field_error_and_no_edit() -> None:
    form = edited(crew([task(1)], INPUTS), input__year="soon", input__topic="ML")
    assert [(error.html_id, error.label) for error in form.errors] == [("input-1", "year")]
    assert form.edits[0] == {"topic": "ML"}
    assert form.inputs is not None and form.inputs["input:year"].value().text == "soon"


def test_an_input_missing_in_the_run_can_be_added() -> None:
    asks = task(1, checkpoint_original_description="About {topic} in {place} {not a name}")
    contents = crew([asks], {"topic": "AI"})
    assert edited(contents).edits[0] == {}
    assert edited(contents, input__place="Bern").edits[0] == {"place": "Bern"}


def test_further_inputs_are_one_json_object() -> None:
    contents = crew([task(1)], INPUTS)
    assert edited(contents, input_more='{"new": [1]}').edits[0] == {"new": [1]}
    assert "JSON object" in edited(contents, input_more="[1]").errors[0].message
    assert "its own field" in edited(contents, input_more='{"year": 1}').errors[0].message


def test_inputs_beyond_the_limit_are_edited_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_form, "MAX_FIELDS", 2)
    form = first(crew([task(1)], INPUTS))
    assert form.inputs is not None and len(form.inputs.value_fields) == 2
    assert form.inputs.others == list(INPUTS)[2:]
    assert edited(crew([task(1)], INPUTS), input_more='{"pages": [9]}').edits[0] == {"pages": [9]}


def test_a_redacted_input_is_unchanged_unless_it_is_replaced() -> None:
    contents = crew([task(1)], {"password": "[redacted]", "about": {"token": "[redacted]", "n": 1}})
    form = first(contents)
    assert form.inputs is not None
    password = form.inputs.value_fields["input:password"]
    assert password.is_secret and password.stored_text == ""
    assert edited(contents).edits[0] == {}
    assert edited(contents, input__password="new one").edits[0] == {"password": "new one"}
    kept_mark = edited(contents, input__about='{"token": "[redacted]", "n": 2}')
    assert kept_mark.edits[0] == {}
    assert "[redacted]" in kept_mark.errors[0].message
    assert edited(contents, input__about='{"n": 2}').edits[0] == {"about": {"n": 2}}


def test_an_edited_output_is_a_text() -> None:
    contents = crew([task(1, "old"), task(2)], {})
    form = edited(contents, **{"output__task-1": "new\r\ntext"})
    assert form.edits[1] == {"task-1": "new\ntext"}
    assert list(form.outputs.fields) == ["output:task-1"]


@pytest.mark.parametrize("field", ["json_dict", "pydantic"])
def test_a_json_output_is_edited_as_json_and_checked(field: str) -> None:
    output = {"raw": "{}", "json_dict": None, "pydantic": None, field: {"holds": True, "n": 1}}
    contents = crew([task(1, output)], {})
    form = edited(contents, **{"output__task-1": '{"n": 1.0, "holds": true}'})
    assert form.edits[1] == {"task-1": {"json": {"n": 1.0, "holds": True}}}
    assert edited(contents, **{"output__task-1": '{"n": 1, "holds": true}'}).edits[1] == {}
    assert "not valid JSON" in edited(contents, **{"output__task-1": "holds"}).errors[0].message
    assert "object" in edited(contents, **{"output__task-1": "[]"}).errors[0].message


def test_a_model_stored_without_fields_is_edited_as_text() -> None:
    contents = crew([task(1, {"raw": '{"holds": true}', "json_dict": None, "pydantic": {}})], {})
    assert "holds" in first(contents).outputs["output:task-1"].value()
    form = edited(contents, **{"output__task-1": '{"holds": false}'})
    assert form.edits[1] == {"task-1": {"json": {"holds": False}}}


@pytest.mark.parametrize("typed", ["", " \r\n ", "new [redacted]", "x" * 500_001])
def test_an_invalid_output_is_refused(typed: str) -> None:
    form = edited(crew([task(1, "old [redacted]")], {}), **{"output__task-1": typed})
    assert form.edits[1] == {}
    assert [error.html_id for error in form.errors] == ["output-1"]
    assert form.outputs["output:task-1"].value() == typed


def test_a_redacted_output_is_unchanged() -> None:
    assert edited(crew([task(1, "key [redacted]")], {})).edits[1] == {}


def test_outputs_that_a_form_cannot_hold_are_not_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_form, "MAX_BYTES", 10)
    contents = crew([task(1, "123456"), task(2, "123456")], {})
    assert first(contents).outputs.too_long == {"task-2"}
    assert edited(contents, **{"output__task-2": "forged"}).edits[1] == {}


def test_the_output_of_an_unfinished_or_unknown_task_is_no_edit() -> None:
    form = edited(
        crew([task(1), task(2, "x")], {}), **{"output__task-1": "forged", "output__task-9": "forged"}
    )
    assert form.edits[1] == {}


def test_tasks_with_one_id_are_edited_once() -> None:
    twins = [task(1, "a"), {**task(2, "b"), "id": "task-1"}, {**task(3, "c"), "id": ""}]
    assert len(first(crew(twins, {})).outputs.fields) == 1


def test_a_flows_state_is_edited_and_its_id_is_not() -> None:
    contents = flow({"id": "3", "topic": "AI", "n": 111})
    form = edited(contents, state__n="112")
    assert form.inputs is None
    assert form.edits[2] == {"n": 112}
    assert edited(contents).edits[2] == {}
    assert edited(contents, state__id="4").edits[2] == {}


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ("Ask me", ValueKind.TEXT),
        ([{"role": "user", "content": "Ask me"}], ValueKind.TEXT),
        ([{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Ask me"}], ValueKind.JSON),
    ],
)
def test_the_prompt_of_an_agent_is_its_input(messages: Any, kind: ValueKind) -> None:
    form = first(agent(messages))
    assert form.inputs is not None
    assert [(one.name, one.kind) for one in form.inputs.value_fields.values()] == [("messages", kind)]
    assert edited(agent(messages)).edits[0] == {}
    assert edited(agent(messages), input_more='{"other": 1}').edits[0] == {}


def test_only_entry_points_of_the_project_are_valid() -> None:
    proposed = {"entry_point": "a:Desk"}
    assert EntryPointForm(None, ["a:Desk"], proposed).chosen_entry_point == "a:Desk"
    form = EntryPointForm({"entry_point": "os:system"}, ["a:Desk"], proposed)
    assert [error.html_id for error in errors_of(form)] == ["entry-point"]
    assert form.chosen_entry_point == ""
    form = EntryPointForm({"entry_point": ""}, ["a:Desk"], proposed)
    assert form.is_valid() and form.chosen_entry_point == ""


def test_a_branch_with_a_nul_character_is_refused_at_its_field() -> None:
    form = ForkForm({"branch": "a\0b"}, [], {"branch": "fork/x"}, (), KINDS["crew"])
    assert [(error.html_id, error.label) for error in errors_of(form)] == [("branch", "Branch")]
    assert form.branch_name == ""
