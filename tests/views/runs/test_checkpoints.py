"""The detail of a checkpoint, tab by tab, and its download."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from viewer.models import Checkpoint, Location, Run
from viewer.records.bodies import stored_body
from viewer.stores.protocol import compressed

Imported = Callable[[str], Location]


def tab_of(client: Client, checkpoint: Checkpoint, tab: str, more: str = "") -> str:
    address = f"{checkpoint.run.get_absolute_url()}?at={checkpoint.checkpoint_id}&tab={tab}{more}"
    answer = client.get(address, headers={"HX-Request": "true", "HX-Target": "detail"})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def forked(crew_run: Run) -> Checkpoint:
    """Return the last checkpoint of the fork with an edited first output."""
    return crew_run.checkpoints.filter(branch="exp-a").latest("row")


def test_the_overview_shows_engine_source_parent_and_agents(reader: Client, forked: Checkpoint) -> None:
    detail = tab_of(reader, forked, "overview")
    assert "CrewAI 1.15.30" in detail
    assert forked.source in detail
    assert forked.parent and f"?at={forked.parent.checkpoint_id}" in detail.replace("&amp;", "&")
    assert "Researcher on AI" in detail and "gpt-4o-mini" in detail
    assert "What ran" in detail and "executor" not in detail


def test_tasks_show_what_a_fork_edited_and_ran_again(reader: Client, forked: Checkpoint) -> None:
    detail = tab_of(reader, forked, "tasks")
    text = [word for word in ("edited", "ran again", "not run yet") if f">{word}</span>" in detail]
    assert text == ["edited", "ran again", "not run yet"]
    assert "EDITED RESEARCH OUTPUT" in detail
    assert "Output of an earlier prompt: Research AI trends for 2026" in detail


def test_tasks_of_a_run_without_forks_have_no_labels(reader: Client, crew_run: Run) -> None:
    detail = tab_of(reader, crew_run.checkpoints.filter(branch="main").latest("row"), "tasks")
    assert "ran again" not in detail and "Write a summary of AI" in detail


def test_inputs_keep_their_types(reader: Client, crew_run: Run) -> None:
    detail = tab_of(reader, crew_run.checkpoints.earliest("row"), "inputs")
    year = detail[detail.index(">year<") :]
    assert year.index("number") < year.index("2026")


def test_a_flows_state_and_methods_are_shown(reader: Client, imported: Imported) -> None:
    end = imported("1.14.7/flow").checkpoints.latest("row")
    assert ">topic<" in tab_of(reader, end, "state")
    methods = tab_of(reader, end, "tasks")
    assert "outline draft edited" in methods


def tabs_in(detail: str) -> list[str]:
    return re.findall(r'id="tab-(\w+)"', detail)


def with_body(checkpoint: Checkpoint, change: Callable[[dict[str, Any]], None]) -> Checkpoint:
    """Change the stored copy of a checkpoint."""
    body = stored_body(checkpoint)
    change(body)
    checkpoint.stored_copy.data = compressed(json.dumps(body).encode())
    checkpoint.stored_copy.save()
    return checkpoint


@pytest.mark.parametrize(
    ("store", "tabs"),
    [
        ("1.15.30/json", ["output", "tasks", "inputs", "overview", "events", "raw"]),
        ("1.14.7/flow", ["output", "tasks", "inputs", "state", "overview", "events", "raw"]),
        ("1.14.7/agent", ["output", "overview", "events", "raw"]),
    ],
)
def test_empty_tabs_are_not_shown(reader: Client, imported: Imported, store: str, tabs: list[str]) -> None:
    detail = tab_of(reader, imported(store).checkpoints.latest("row"), "state" if "state" not in tabs else "")
    assert tabs_in(detail) == tabs
    assert 'id="tab-output" href' in detail and "Started without inputs" not in detail


def test_a_checkpoint_opens_on_what_its_newest_task_produced(reader: Client, forked: Checkpoint) -> None:
    detail = tab_of(reader, forked, "")
    assert re.search(r'id="tab-output"[^>]*aria-current="true"', detail)
    title, text = detail.index("2. Write a summary of Rust"), detail.index("rendered-source")
    assert title < text and "1. Research Rust trends" not in detail


def test_an_output_is_rendered_as_markdown_with_its_source_beside_it(
    reader: Client, forked: Checkpoint
) -> None:
    def answer(body: dict[str, Any]) -> None:
        body["entities"][0]["tasks"][1]["output"]["raw"] = "# Trends\n\n- **one**\n- <b>two</b>"

    detail = tab_of(reader, with_body(forked, answer), "")
    assert "<h1>Trends</h1>" in detail and "<strong>one</strong>" in detail
    assert "# Trends\n\n- **one**\n- &lt;b&gt;two&lt;/b&gt;</pre>" in detail
    assert "is-source" not in detail and "is-source" in tab_of(reader, forked, "", "&as=source")
    tasks = tab_of(reader, forked, "tasks")
    assert "<strong>one</strong>" in tasks
    assert "<strong>one</strong>" not in tab_of(reader, forked, "tasks", "&as=source")


def test_a_checkpoint_before_any_output_opens_on_its_tasks(reader: Client, crew_run: Run) -> None:
    first = crew_run.checkpoints.earliest("row")
    detail = tab_of(reader, first, "output")
    assert tabs_in(detail)[0] == "tasks" and "output" not in tabs_in(detail)
    assert "not run yet" in detail


def test_the_tab_that_a_person_chose_is_kept_where_it_is_empty(reader: Client, crew_run: Run) -> None:
    newest = crew_run.checkpoints.latest("row")
    assert 'data-kept="tab=state&amp;"' in tab_of(reader, newest, "state")
    assert 'data-kept=""' in tab_of(reader, newest, "output") and 'data-kept=""' in tab_of(reader, newest, "")
    assert 'data-kept="as=source"' in tab_of(reader, newest, "", "&as=source")


def test_a_flow_whose_methods_return_nothing_shows_the_state_that_they_left(
    reader: Client, imported: Imported
) -> None:
    def returns_nothing(body: dict[str, Any]) -> None:
        outputs = body["entities"][0]["checkpoint_method_outputs"]
        outputs[:] = [{**one, "output": None} if isinstance(one, dict) else None for one in outputs]

    head = with_body(imported("1.15.30/flow").checkpoints.latest("row"), returns_nothing)
    detail = tab_of(reader, head, "")
    assert "It returned nothing" in detail and ">topic<" in detail and ">id<" not in detail


def test_a_checkpoint_at_a_tools_answer_opens_on_it(reader: Client, forked: Checkpoint) -> None:
    def call_a_tool(body: dict[str, Any]) -> None:
        event = {"type": "tool_usage_finished", "tool_name": "search", "output": "three results"}
        body["event_record"]["nodes"]["tool"] = {"event": {**event, "timestamp": "2030-01-01T00:00:00Z"}}

    detail = tab_of(reader, with_body(forked, call_a_tool), "")
    assert "tool answered" in detail and "three results</pre>" in detail


def test_a_text_without_spaces_is_measured_in_characters(reader: Client, forked: Checkpoint) -> None:
    def write(body: dict[str, Any]) -> None:
        body["entities"][0]["tasks"][1]["output"]["raw"] = "中" * 20_000

    detail = tab_of(reader, with_body(forked, write), "tasks")
    assert "Show all 20,000 characters" in detail and "1 word" not in detail


def test_the_timeline_shows_messages_and_tokens(reader: Client, forked: Checkpoint) -> None:
    detail = tab_of(reader, forked, "events")
    assert detail.index("crew started") < detail.index("task started") < detail.index("model answered")
    assert "20 tokens" in detail and "2 messages" in detail
    assert "+0 s" in detail


def test_internal_events_are_shown_on_request(reader: Client, forked: Checkpoint) -> None:
    assert "checkpoint completed" not in tab_of(reader, forked, "events")
    assert "checkpoint completed" in tab_of(reader, forked, "events", "&internal=1")


def test_the_raw_tab_is_a_tree_with_paths_and_a_search(reader: Client, forked: Checkpoint) -> None:
    tree = tab_of(reader, forked, "raw")
    assert 'data-copy-value=".entities[0]' in tree
    assert 'class="tree-above' not in tree
    below = tab_of(reader, forked, "raw", "&node=/entities/0")
    assert 'data-copy-value=".entities[0].' in below and 'class="tree-above' in below
    found = tab_of(reader, forked, "raw", "&find=exp-A")
    assert "of “exp-A”" in found and ".branch" in found


def test_a_failed_checkpoint_shows_the_error_first(reader: Client, forked: Checkpoint) -> None:
    assert "notice-bad failure" not in tab_of(reader, forked, "overview")
    body = stored_body(forked)
    event = {"type": "task_failed", "task_name": "Draft", "error": "The model <b>answered</b> 429."}
    body["event_record"]["nodes"]["failed"] = {"event": {**event, "timestamp": "2030-01-01T00:00:00Z"}}
    forked.stored_copy.data = compressed(json.dumps(body).encode())
    forked.stored_copy.save()
    Checkpoint.objects.filter(pk=forked.pk).update(trigger="task_failed")
    for tab in ("overview", "tasks"):
        text = tab_of(reader, forked, tab)
        assert "Draft failed" in text and "The model &lt;b&gt;answered&lt;/b&gt; 429." in text


def test_the_raw_checkpoint_is_a_download(reader: Client, forked: Checkpoint) -> None:
    assert reverse("checkpoint-raw", args=[forked.pk]) in tab_of(reader, forked, "raw")
    answer = reader.get(reverse("checkpoint-raw", args=[forked.pk]))
    assert answer["Content-Disposition"] == f'attachment; filename="{forked.checkpoint_id}.json"'
    assert answer["Content-Type"] == "application/json"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert json.loads(answer.content)["branch"] == "exp-a"


@pytest.mark.parametrize(
    ("checkpoint_id", "name"),
    [
        ("20260101T000000_ü漢", "filename*=utf-8''20260101T000000_%C3%BC%E6%BC%A2.json"),
        ('a";x="b', 'filename="a_x_b.json"'),
        ("../../etc/cron", 'filename="etc_cron.json"'),
        ("..", 'filename="checkpoint.json"'),
        ("a\r\nX-Forged: 1", 'filename="a_X-Forged_1.json"'),
    ],
)
def test_a_download_is_an_attachment_for_any_checkpoint_name(
    reader: Client, forked: Checkpoint, checkpoint_id: str, name: str
) -> None:
    Checkpoint.objects.filter(pk=forked.pk).update(checkpoint_id=checkpoint_id)
    answer = reader.get(reverse("checkpoint-raw", args=[forked.pk]))
    assert answer["Content-Disposition"] == f"attachment; {name}"


@pytest.mark.parametrize("tab", ["overview", "tasks", "inputs", "state", "events", "raw"])
def test_no_tab_shows_a_key(reader: Client, forked: Checkpoint, tab: str) -> None:
    assert "SECRET" not in tab_of(reader, forked, tab)


def test_the_download_holds_no_key(reader: Client, forked: Checkpoint) -> None:
    assert b"SECRET" not in reader.get(reverse("checkpoint-raw", args=[forked.pk])).content


def test_the_address_of_a_checkpoint_redirects_to_its_run(reader: Client, forked: Checkpoint) -> None:
    answer = reader.get(reverse("checkpoint", args=[forked.pk]))
    assert (answer.status_code, answer["Location"]) == (302, forked.get_absolute_url())


def test_an_unknown_checkpoint_is_not_found(reader: Client) -> None:
    assert reader.get(reverse("checkpoint", args=[404])).status_code == 404
    assert reader.get(reverse("checkpoint-raw", args=[404])).status_code == 404


def test_the_buttons_link_to_fork_and_resume(runner: Client, forked: Checkpoint) -> None:
    detail = tab_of(runner, forked, "overview")
    assert f'href="{reverse("fork", args=[forked.pk])}" data-key="f"' in detail
    assert f'href="{reverse("resume", args=[forked.pk])}" data-key="r"' in detail
