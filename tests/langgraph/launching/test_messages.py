"""Messages are edited, removed and added one by one."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.http import QueryDict

from tests.langgraph.conftest import opened
from viewer.cli.options import written_conversations
from viewer.engines import engine_named
from viewer.engines.langgraph.plan import REMOVE, editable_messages, edited_messages
from viewer.engines.plan import EditRefused, MessageEdit, Schema, StateEntry
from viewer.models import Location
from viewer.redaction import MARKER
from viewer.web.launch.conversations import ADD, message_forms

MODULE = "langchain_core.messages"
HUMAN, AI = f"{MODULE}.human.HumanMessage", f"{MODULE}.ai.AIMessage"
CALL = {"name": "find", "args": {"text": "1001"}, "id": "c1", "type": "tool_call"}


def message(kind: str, **fields: Any) -> dict[str, Any]:
    return {"__type__": kind, "fields": {"type": "human" if kind == HUMAN else "ai", **fields}}


STORED = [
    message(HUMAN, id="m1", content="Where is my order?"),
    message(AI, id="m2", content="", tool_calls=[CALL], additional_kwargs={"tool_calls": ["raw"], "x": 1}),
    message(AI, id="m3", content="It is on its way."),
]


def sent(**fields: str) -> QueryDict:
    """What a browser sends of the form of these messages."""
    made = message_forms(None, "messages", editable_messages(STORED))
    data = QueryDict(mutable=True)
    data |= {
        f"messages:messages-{name}": text for name, text in (("TOTAL_FORMS", "3"), ("INITIAL_FORMS", "3"))
    }
    for form in made.forms:
        for name in ("text", "calls"):
            data[form.add_prefix(name)] = str(form[name].value() or "")
    for name, text in fields.items():
        data[name.replace("m_", "messages:messages-").replace("__", "-")] = text
    return data


def edits_of(data: QueryDict) -> list[MessageEdit]:
    forms = message_forms(data, "messages", editable_messages(STORED))
    assert all(form.is_valid() for form in forms.forms), [form.errors for form in forms.forms]
    return forms.edits


def test_a_form_that_is_sent_unchanged_edits_nothing() -> None:
    assert edits_of(sent()) == []


def test_one_message_is_edited_and_one_removed() -> None:
    edits = edits_of(sent(m_0__text="Where is it?", m_2__remove="on"))
    written = edited_messages(STORED, edits, by_id=True)
    assert written[0] == message(HUMAN, id="m1", content="Where is it?")
    assert written[1] == {"__type__": REMOVE, "fields": {"id": "m3"}} and len(written) == 2
    whole = edited_messages(STORED, edits, by_id=False)
    assert [one["fields"]["id"] for one in whole] == ["m1", "m2"]


def test_calls_of_tools_are_edited_with_the_copy_that_the_provider_has() -> None:
    edits = edits_of(sent(m_1__calls=json.dumps([{**CALL, "args": {"text": "1002"}}])))
    (written,) = edited_messages(STORED, edits, by_id=True)
    assert written["fields"]["tool_calls"][0]["args"] == {"text": "1002"}
    assert written["fields"]["additional_kwargs"] == {"x": 1} and written["fields"]["id"] == "m2"


def test_the_button_adds_an_empty_message_which_is_no_edit() -> None:
    data = sent()
    data[ADD] = "messages"
    forms = message_forms(data, "messages", editable_messages(STORED))
    assert forms.is_grown and len(forms.forms) == 4 and forms.edits == []


def test_a_new_message_is_added_at_the_end() -> None:
    fields = {"m_TOTAL_FORMS": "4", "m_3__role": "system", "m_3__text": "Be brief."}
    (written,) = edited_messages(STORED, edits_of(sent(**fields)), by_id=True)
    assert written == {"__type__": f"{MODULE}.system.SystemMessage", "fields": {"content": "Be brief."}}


def test_a_new_message_is_inserted_before_the_chosen_one() -> None:
    fields = {"m_TOTAL_FORMS": "4", "m_3__role": "user", "m_3__text": "Any news?", "m_3__before": "2"}
    edits = edits_of(sent(**fields, m_0__remove="on"))
    written = edited_messages(STORED, edits, by_id=False)
    assert [one["fields"].get("id") for one in written] == ["m2", None, "m3"]
    with pytest.raises(EditRefused) as refused:
        edited_messages(STORED, edits, by_id=True)
    assert refused.value.message.code == "langgraph.message_place_by_id"


def test_the_terminal_edits_messages_by_position_or_id() -> None:
    contents = engine_named("langgraph").contents_of(
        {"checkpoint": {"channel_values": {"messages": STORED}}, "checkpoint_id": "1"}
    )
    operations = [
        {"edit": 1, "content": "Where?"},
        {"remove": "m2"},
        {"add": "user", "content": "?", "before": 3},
    ]
    texts = [f"messages={json.dumps(operations[:2])}", f"messages={json.dumps(operations[2])}"]
    written = written_conversations(contents, texts, ["messages"])["messages"]
    assert [one["fields"]["content"] for one in written] == ["Where?", "?", "It is on its way."]
    changed = written_conversations(contents, texts[:1], [])["messages"]
    assert [one["fields"]["id"] for one in changed] == ["m1", "m2"]
    assert changed[1]["__type__"] == REMOVE


@pytest.mark.parametrize(
    "text",
    [
        'messages={"edit": 4}',
        'messages={"edit": true}',
        'messages={"remove": 1, "content": "x"}',
        'messages={"add": "poet", "content": "x"}',
        'messages={"add": [], "content": "x"}',
        'messages={"add": "user", "content": "x", "tool_calls": null}',
        'messages={"add": "user", "content": "x", "tool_calls": 5}',
        "messages=[1]",
        "notes=[]",
        "messages",
    ],
)
def test_an_edit_that_cannot_be_made_is_an_error_at_the_terminal(text: str) -> None:
    contents = engine_named("langgraph").contents_of(
        {"checkpoint": {"channel_values": {"messages": STORED, "notes": ["a"]}}, "checkpoint_id": "1"}
    )
    with pytest.raises(CommandError):
        written_conversations(contents, [text], [])


@pytest.mark.parametrize("calls", ["{}", "[1]", "[{}]", "nonsense"])
def test_calls_that_are_no_list_of_calls_are_an_error(calls: str) -> None:
    forms = message_forms(sent(m_1__calls=calls), "messages", editable_messages(STORED))
    assert "calls" in forms.forms[1].errors and forms.edits == []


def test_redacted_parts_are_never_written_and_stay_where_only_others_are_edited() -> None:
    stored = [message(HUMAN, id="m1", content=f"My key is {MARKER}"), STORED[2]]
    edit = MessageEdit(1, content="It left.")
    assert len(edited_messages(stored, [edit], by_id=True)) == 1
    with pytest.raises(EditRefused):
        edited_messages(stored, [edit], by_id=False)


def test_a_message_without_an_id_can_only_be_edited_with_all_others() -> None:
    stored = [message(HUMAN, content="Hello")]
    edit = MessageEdit(0, content="Good day")
    with pytest.raises(EditRefused):
        edited_messages(stored, [edit], by_id=True)
    assert edited_messages(stored, [edit], by_id=False)[0]["fields"]["content"] == "Good day"


def test_values_that_are_no_messages_are_edited_as_values(threads: Callable[[str], Location]) -> None:
    assert editable_messages(["Hello"]) == () == editable_messages([{"role": "user", "content": "Hello"}])
    row = opened(threads("lg12"), "appr-waiting").checkpoints.latest("row")
    assert row


def test_only_a_known_reducer_of_messages_merges_by_id() -> None:
    entries = {"messages": StateEntry(list, "_add_messages"), "notes": StateEntry(list, "operator.add")}
    schema = Schema(entries=entries, is_inferred=False)
    assert [schema.merges_by_id(name) for name in ("messages", "notes", "other")] == [True, False, False]


def test_the_schema_of_a_report_has_types_reducers_and_configuration() -> None:
    report = {
        "nodes": ["a"],
        "channels": [
            {"name": "n", "type": "integer", "reducer": ""},
            {"name": "m", "type": "array", "reducer": "add"},
        ],
        "context": [{"name": "tone", "type": "string", "default": "warm"}],
    }
    schema = engine_named("langgraph").schema(None, report)
    assert (
        schema.entries == {"n": StateEntry(int, ""), "m": StateEntry(list, "add")} and not schema.is_inferred
    )
    assert schema.context[0].default == "warm" and schema.units == ("a",)


@pytest.mark.parametrize("calls", [5, True, {"name": "find"}, None])
def test_a_message_whose_tool_calls_are_no_list_keeps_them(calls: Any) -> None:
    stored = [message(AI, id="m1", content="Hello", tool_calls=calls)]
    (edited,) = edited_messages(stored, [MessageEdit(0, content="Bye")], by_id=False)
    assert edited["fields"] == {**stored[0]["fields"], "content": "Bye"}
