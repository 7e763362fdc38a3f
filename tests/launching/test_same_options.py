"""A form and the terminal refuse the same values of each declared option, with the same sentence.

The options are those of the declarations, so one that is added later has to be named here as well.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import transaction
from django.http import QueryDict

from tests.imported import imported_location
from tests.langgraph.conftest import copied, opened
from tests.langgraph.launching.test_messages import STORED, sent
from tests.views.forking import CREW, FLOW, stored
from viewer.cli import SUBCOMMANDS, LineParser
from viewer.cli.options import written_conversations
from viewer.engines import engine_named, engine_of
from viewer.engines.langgraph.plan import editable_messages
from viewer.host_requests import ReadBody, ask
from viewer.launching import options
from viewer.launching.options import Option
from viewer.launching.requests import ForkRequest
from viewer.models import Checkpoint, Job, Location, Project, StoredCopy
from viewer.presentation.calls import call_named, recorded_calls_of
from viewer.records.bodies import stored_body, stored_contents
from viewer.redaction import MARKER
from viewer.stores.protocol import compressed
from viewer.validation import MAX_CHARACTERS, brief
from viewer.web.launch.conversations import message_forms
from viewer.web.launch.new_run_page import chosen_for, new_run_page
from viewer.web.launch.page import LaunchPage, fork_page, publish_page
from viewer.web.launch.prefilled import StartingPoint, Submission
from viewer.web.launch.sweep_page import sweep_page
from viewer.web.views.calls import replay_page

# What is refused is not stored.
pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]
Sent = dict[str, Any]
COMMANDS = ("fork", "sweep", "run", "publish", "replay")
NAMES = {
    "a redacted secret": f"the {MARKER}",
    "a negative number": "-1",
    "a large number": "9" * 40,
    "a fraction": "0.5",
    "a word": "yesterday",
    "two lines": "two\nlines",
    "a path": "../up",
    "a long name": "n" * 400,
}
VALUES = {
    "a redacted secret": f"the {MARKER}",
    "a hidden redacted secret": '["[r\\u0065dacted]"]',
    "a number beyond floating point": "1e999",
    "an open bracket": '["a',
    "a list with infinity": "[Infinity]",
    "nested lists": "[" * 60 + "]" * 60,
    "half of a surrogate pair": '{"a": "\\ud800"}',
    "an object": '{"a": 1}',
}
IN_FILES = {"a long text": "x" * (MAX_CHARACTERS + 1)}


def is_like_json(text: str) -> bool:
    """Whether the terminal reads a value as JSON."""
    try:
        json.loads(text)
    except ValueError:
        return text[:1] in {"{", "[", '"'} and "I" not in text
    return text != "NaN"


def topic(text: str) -> Sent:
    """The fields of a topic: one for its text, and one for JSON of any type."""
    return {"input:topic": "AI", "input-json:topic": text} if is_like_json(text) else {"input:topic": text}


def further(field: str) -> Callable[[str], Sent | None]:
    """The field of further values, with the value of ``tone``."""
    return lambda text: {field: f'{{"tone": {text if is_like_json(text) else json.dumps(text)}}}'}


def plain(field: str) -> Callable[[str], Sent | None]:
    return lambda text: {field: text}


def listed(field: str) -> Callable[[str], Sent | None]:
    """The field of several values, of which the terminal has to be given a list."""
    return lambda text: {field: text} if text.startswith("[") else None


def unit(field: str) -> Callable[[str], Sent | None]:
    """The field of units' ids. At the terminal, a number is a position."""
    return lambda text: None if text.isdigit() else {field: [text]}


def lines(field: str) -> Callable[[str], Sent | None]:
    """The field of several names, each on a line. At the terminal, a comma separates them."""
    return lambda text: None if "," in text or "\n" in text else {field: text}


def units(field: str) -> Callable[[str], Sent | None]:
    """The field of units, in which a comma separates several."""
    return lambda text: None if "," in text else {field: [text]}


# The checkpoint, what precedes the text at the terminal, and the fields of the form, by command and option.
# None is what a form has no text for.
FIELDS: Mapping[str, tuple[str, str, Callable[[str], Sent | None]] | None] = {
    "fork input": ("crew", "topic=", topic),
    "fork output": ("crew", "1=", plain("output:task-1")),
    "fork state": ("flow", "", plain("state-more")),
    # See test_a_message_is_refused_alike.
    "fork message": None,
    # A form has a choice for each channel.
    "fork replace": None,
    "fork as-node": ("crew", "", plain("as_node")),
    "fork answer": ("waiting", "", lambda text: answered(text)),
    "fork again": ("crew", "", unit("again")),
    "fork keep": ("crew", "", unit("keep")),
    "fork stop-before": ("waiting", "", units("stop_before")),
    "fork stop-after": ("waiting", "", units("stop_after")),
    "fork configurable": ("waiting", "tone=", further("configurable-more")),
    "fork context": ("waiting", "tone=", further("context-more")),
    "fork events": ("crew", "", units("checkpoint_events")),
    "fork max-checkpoints": ("crew", "", plain("max_checkpoints")),
    "fork match": None,
    "fork at": ("crew", "", plain("start_at")),
    "fork limit": ("crew", "tokens=", plain("limit_tokens")),
    "fork model": ("crew", "", plain("model:*")),
    "fork cache-warmup": ("crew", "", plain("cache_warmup")),
    "fork tool": ("crew", "search=", plain("tool:search")),
    "fork model-calls": ("crew", "", plain("model_calls")),
    "fork code": ("crew", "", plain("code")),
    "fork branch": ("crew", "", plain("branch")),
    "fork into": ("crew", "", plain("into")),
    # A form has a link for each location.
    "fork on": None,
    "sweep branch": ("crew", "", plain("branch")),
    "sweep vary": ("crew", "topic=", listed("vary-input:topic")),
    "sweep vary-answer": ("waiting", "", listed("vary-answer")),
    # A form has a field for each name that the project's code reads.
    "sweep vary-configurable": None,
    "sweep vary-context": None,
    "sweep vary-output": ("crew", "1=", plain("vary-output:task-1")),
    "sweep vary-model": ("crew", "", lines("vary-model:*")),
    "sweep as-it-is": None,
    "sweep as-node": ("crew", "", plain("as_node")),
    "sweep score": ("crew", "", plain("score")),
    "sweep cache-warmup": ("crew", "", plain("cache_warmup")),
    "run input": ("crew", "tone=", further("input-more")),
    # A form has a field for each entry of the state.
    "run state": None,
    "run thread": None,
    "replay models": ("called", "", plain("models")),
    "replay times": ("called", "", plain("times")),
    # See test_a_message_is_refused_alike.
    "replay message": None,
    "replay tools": ("called", "", plain("tools")),
    "replay parameters": ("called", "", plain("parameters")),
    "publish into": ("draft", "", plain("into")),
    "publish thread": ("draft", "", plain("thread")),
}


def declared() -> Iterator[tuple[str, Option[Any]]]:
    """Each declared option that takes a value, with the first command that has it."""
    found = [
        one for value in vars(options).values() for one in (value if isinstance(value, tuple) else (value,))
    ]
    texts = {(one.name, str(one.help)): one for one in found if isinstance(one, Option)}
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            name = action.dest.replace("_", "-")
            if action.nargs != 0 and (name, str(action.help)) in texts:
                yield f"{command} {name}", texts.pop((name, str(action.help)))


def parser_of(command: str) -> LineParser:
    parser = LineParser(prog=command)
    SUBCOMMANDS[command].add_arguments(parser)
    return parser


DECLARED = dict(declared())


def answered(text: str) -> Sent:
    kind = "json" if is_like_json(text) else "text"
    return {"answer:0": text, "type:0": kind}


CALL = {
    "type": "llm_call_started",
    "event_id": "called",
    "emission_sequence": 1,
    "timestamp": "2026-01-01T00:00:00",
    "model": "o3",
    "messages": [{"role": "user", "content": "Hello"}],
}
ENTRY_POINTS = {"crew": "crew:build", "flow": "flow:Desk", "waiting": "graphs:app"}
RELATED = ("location__project", "run__location", "stored_copy")


def checkpoint_of(target: str, location: Location, folder: Path) -> Checkpoint:
    """The checkpoint of a name that FIELDS uses."""
    assert location.project
    if target == "called":
        found = stored(location, CREW)
        recorded = stored_body(found)
        recorded["event_record"]["nodes"] |= {"1": {"event": CALL}}
        found.stored_copy.data = compressed(json.dumps(recorded).encode())
        found.stored_copy.save()
    elif target in ("crew", "flow"):
        agents = [{"id": number, "role": f"Agent {number}", "llm": {"model": "o3"}} for number in "ab"]
        found = stored(location, {**CREW, "agents": agents} if target == "crew" else FLOW)
    else:
        threads = imported_location(copied("lg12", folder))
        (Path(location.project.folder) / "graphs.py").write_text("app = None\n")
        Project.objects.update(entry_points=["graphs:app"])
        Location.objects.filter(pk=threads.pk).update(project=location.project)
        thread = "appr-waiting" if target == "waiting" else "fan-forked"
        found = opened(threads, thread).checkpoints.latest("row")
        if target == "draft":
            job = Job.objects.create(kind=Job.Kind.FORK, location=threads, branch="draft", status="succeeded")
            body = ask(ReadBody(found.pk))
            StoredCopy.objects.update_or_create(checkpoint=found, defaults={"data": body, "fingerprint": ""})
            found.source_key = f"{Checkpoint.SCRATCH}{job.pk}/{found.source_key}"
            # The import adds the recorded one again.
            found.checkpoint_id = f"{found.checkpoint_id[:-1]}x"
            found.save()
    return Checkpoint.objects.select_related(*RELATED).get(pk=found.pk)


def terminal_error(command: str, target: str, checkpoint: Checkpoint, arguments: list[str]) -> str:
    """What the terminal says if it refuses; empty if it does not."""
    named = checkpoint.location.path
    if target in ENTRY_POINTS:
        arguments = ["--entrypoint", ENTRY_POINTS[target], *arguments]
    if target == "called":
        arguments = [recorded_calls_of(checkpoint)[0].name, *arguments]
    if command != "run":
        thread = f"{checkpoint.run.key}/" if target in ("waiting", "draft") else ""
        named += f"#{thread}{checkpoint.checkpoint_id}"
    try:
        given = vars(parser_of(command).parse_args([named, *arguments]))
        return str(SUBCOMMANDS[command].handle(given).document.get("error") or "")
    except CommandError as error:
        return str(error)


def form_errors(command: str, target: str, checkpoint: Checkpoint, fields: Sent) -> list[str]:
    """What the page of the form says if it refuses."""
    data = QueryDict(mutable=True)
    for name, texts in ({"entry_point": ENTRY_POINTS.get(target, ""), "agreed": "1"} | fields).items():
        data.setlist(name, texts if isinstance(texts, list) else [texts])
    page = page_of(command, checkpoint, Submission(data, None, uuid.uuid4()))
    return [*(error.message for error in page.errors), *page.against]


def page_of(command: str, checkpoint: Checkpoint, submission: Submission) -> LaunchPage[Any, Any]:
    location = checkpoint.location
    assert location.project
    if command == "fork":
        return fork_page(ForkRequest, checkpoint, submission, None)
    if command == "sweep":
        return sweep_page(checkpoint, submission, submission.key)
    if command == "replay":
        point = StartingPoint(checkpoint, stored_contents(checkpoint), location.project)
        found = call_named(recorded_calls_of(checkpoint), recorded_calls_of(checkpoint)[0].name, checkpoint)
        assert found
        return replay_page(point, found.view, submission, None)
    if command == "publish":
        return publish_page(checkpoint, submission, "")
    chosen = chosen_for(location, location.project, {"entry_point": "crew:build"}, None, None)
    return new_run_page(location, location.project, chosen, submission)


def without_position(text: str) -> str:
    """The text without the place in a JSON text, as values of a form may be in an object."""
    return re.sub(r"line \d+, column \d+", "", brief(text))


@pytest.mark.parametrize("name", [name for name in DECLARED if FIELDS[name]])
def test_a_form_and_the_terminal_refuse_the_same_values(
    name: str, location: Location, tmp_path: Path
) -> None:
    (command, option), (target, prefix, fields_of) = name.split(), FIELDS[name] or ("", "", plain(""))
    checkpoint, metavar = checkpoint_of(target, location, tmp_path), DECLARED[name].metavar
    questions = engine_of(stored_contents(checkpoint)).editable(stored_contents(checkpoint)).questions
    varied: Sent = {}
    usual = [] if command == "run" or option == "events" else ["--plan"]
    if command == "sweep" and "vary" not in option:
        usual, varied = [*usual, "--vary", "year=[1, 2]"], {"vary-input:year": "[1, 2]"}
    before = form_errors(command, target, checkpoint, varied)
    texts = VALUES if "JSON" in metavar or "TEXT" in metavar else NAMES
    for what, text in {**texts, **(IN_FILES if "@FILE" in metavar else {})}.items():
        if (fields := fields_of(text)) is None:
            continue
        if option == "vary-answer":
            fields = {f"vary-answer:{questions[0].id}": text}
        argument = f"{prefix}{text}"
        if what in IN_FILES:
            (tmp_path / "value").write_text(text)
            argument = f"{prefix}@{tmp_path / 'value'}"
        with transaction.atomic():
            said = without_position(
                terminal_error(command, target, checkpoint, [*usual, f"--{option}={argument}"])
            )
            transaction.set_rollback(True)
        refused = [
            one for one in form_errors(command, target, checkpoint, {**varied, **fields}) if one not in before
        ]
        assert bool(said) == bool(refused), (what, said, refused)
        assert not said or any(without_position(one) in said for one in refused), (what, said, refused)


def test_a_message_is_refused_alike() -> None:
    contents = engine_named("langgraph").contents_of(
        {"checkpoint": {"channel_values": {"messages": STORED}}, "checkpoint_id": "1"}
    )
    for fields, operation in (
        ({"m_0__text": f"the {MARKER}"}, {"edit": 1, "content": f"the {MARKER}"}),
        ({"m_0__text": "x" * (MAX_CHARACTERS + 1)}, {"edit": 1, "content": "x" * (MAX_CHARACTERS + 1)}),
        ({"m_1__calls": "[1]"}, {"edit": 2, "tool_calls": [1]}),
        ({"m_1__calls": '{"name": "find"}'}, {"edit": 2, "tool_calls": {"name": "find"}}),
    ):
        made = message_forms(sent(**fields), "messages", editable_messages(STORED))
        errors = [message for form in made.forms for messages in form.errors.values() for message in messages]
        with pytest.raises(CommandError) as refused:
            written_conversations(contents, [f"messages={json.dumps(operation)}"], [])
        assert len(errors) == 1 and errors[0] in str(refused.value)
