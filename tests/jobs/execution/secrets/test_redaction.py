"""A project's keys are redacted in all output of its runs, even when streamed in pieces."""

import json
from pathlib import Path

import pytest

from forkline_runner.reporting import Reporter, end_of_whole_words, shortened
from tests.jobs.conftest import MakeJob
from tests.redaction.canaries import TEXTS, TOKENS
from viewer.host.jobs.events import LOG_TAIL_CHARACTERS, StreamedTexts, log_tail, redactor_of, rows_of
from viewer.host.jobs.files import CHUNK_BYTES, storage_of
from viewer.host.jobs.spool import LOG, Spool, SpoolEvent, read_events
from viewer.models import Job, Project
from viewer.redaction import MARKER
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.names import secrets_of
from viewer.redaction.values import redact

KEY = "canary-0123456789-canary"
PRIVATE_KEY = f"-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END PRIVATE KEY-----"


def streamed(folder: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the lines that these pieces of one answer become, where each piece may become one."""
    monkeypatch.setattr("forkline_runner.reporting.SECONDS_BETWEEN_TEXTS", 0)
    reporter = Reporter(Spool(folder, hide=[KEY]))
    for piece in pieces:
        reporter.stream(piece, "Writer")
    reporter.end("succeeded")
    return [line["data"]["text"] for line in read_events(folder, 0)[0] if line["kind"] == "text"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
@pytest.mark.parametrize(
    "text",
    [
        f"It is {KEY}, as you know.",
        f"password: {KEY[:9]}\nand more",
        f"token = {KEY[:9]} is mine",
        f"{PRIVATE_KEY} and more",
    ],
)
def test_a_key_that_is_streamed_in_pieces_is_redacted_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    lines = streamed(tmp_path, pieces, monkeypatch)
    assert len(lines) > 1
    hide = redactor_of(None)
    shown = "".join(hide(line) for line in lines)
    assert "canary" not in shown
    assert shown.startswith(text[:2]) or PRIVATE_KEY in text


@pytest.mark.parametrize(
    "event", [{"kind": "checkpoint"}, {"kind": "model_started", "agent": "Editor"}], ids=["any", "of another"]
)
@pytest.mark.parametrize(
    "text", [f"{PRIVATE_KEY}\n{PRIVATE_KEY} and more", f"the password: {KEY[:9]}, and more"]
)
def test_an_event_of_another_agent_splits_no_key(tmp_path: Path, text: str, event: dict[str, str]) -> None:
    """As in graphs, whose nodes run in parallel."""
    reporter = Reporter(Spool(tmp_path))
    for at in range(0, len(text), 5):
        reporter.stream(text[at : at + 5], "Writer")
        reporter.write(event["kind"], **{name: one for name, one in event.items() if name != "kind"})
    reporter.write("model_completed", agent="Writer")
    kinds = [line["kind"] for line in read_events(tmp_path, 0)[0]]
    assert kinds[-2:] == ["text", "model_completed"]
    hide = redactor_of(None)
    lines = [line["data"]["text"] for line in read_events(tmp_path, 0)[0] if line["kind"] == "text"]
    shown = "".join(map(hide, lines))
    assert "canary" not in shown and shown.endswith("and more")


@pytest.mark.parametrize("most", range(60, 160, 3))
def test_a_cut_text_ends_without_a_part_of_a_key(most: int) -> None:
    keys = [*TOKENS.values(), *(text for text, _ in TEXTS.values()), "{'password': 'CANARY in words'}"]
    for key in keys:
        for before in (30, 50, most - 8):
            text = "w " * (before // 2) + key + " and more" * 30
            cut = shortened(text, most)
            assert len(cut) <= most
            assert "CANARY" not in redact(cut) and "IIEpAIB" not in redact(cut), cut
    assert shortened("as it is", 8) == "as it is" and len(shortened("word " * 100, 300)) > 290


def test_text_without_blanks_is_not_delayed() -> None:
    assert end_of_whole_words("日本語の文章") == 6
    assert end_of_whole_words("x" * 1000) == 1000
    assert end_of_whole_words("two words") == 4


def test_a_key_that_was_cut_off_is_hidden_too(tmp_path: Path) -> None:
    Spool(tmp_path, hide=[KEY]).write("task_completed", output=f"It is {KEY}"[:20])
    assert "canary" not in json.dumps(read_events(tmp_path, 0)[0][0]["data"])


def test_passwords_are_redacted_and_plain_settings_are_not() -> None:
    values = {
        "DATABASE_URL": "postgres://app:hunt%40er2@db.example/x",
        "DB_PASSWORD": "pw-12",
        "API_KEY": 'with"quote1',
        "MODEL": "gpt-4o-mini-2024",
        "SECRET_WORD": "red",
    }
    secrets = secrets_of(values)
    assert {"hunt%40er2", "hunt@er2", "pw-12", 'with"quote1'} <= set(secrets)
    assert not {"gpt-4o-mini-2024", "red", "postgres://app:hunt%40er2@db.example/x"} & set(secrets)
    text = json.dumps({"a": 'with"quote1', "b": json.dumps('with"quote1'), "c": "with%22quote1"})
    assert "quote1" not in known_secrets(secrets).redacted_in(text.encode()).decode()


def test_the_log_tail_is_cut_after_redaction(make_job: MakeJob, project: Project) -> None:
    environment = Path(project.folder) / ".env"
    environment.write_text(f"SERVICE_KEY='{PRIVATE_KEY}'\n")
    project.environment_file = str(environment)
    project.save()
    job = make_job()
    job.folder.mkdir(parents=True)
    rest = "x" * (LOG_TAIL_CHARACTERS - 60)
    (job.folder / LOG).write_text(f"first\n{PRIVATE_KEY}\n{rest}\nlast\n")
    end = log_tail(job, redactor_of(job.project))
    assert "canary" not in end and end.endswith("last\n")


@pytest.mark.parametrize("position", [0, 40, 150, 250])
def test_a_secret_of_several_lines_is_redacted_in_a_log_of_several_chunks(
    make_job: MakeJob, position: int
) -> None:
    lines = "\n".join(f"{number:02}{'Kanarie7' * 7}" for number in range(20))
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
    job = make_job()
    job.folder.mkdir(parents=True)
    before = "a line of the output\n" * ((CHUNK_BYTES - 1000) // 21)
    text = f"{before}{'x' * position}\n" + f"{key}between\n" * 40 + "a line of the output\n" * 5000
    (job.folder / LOG).write_text(text)
    storage_of(job).clean_up(redactor_of(None))
    assert (job.folder / LOG).read_text() == text.replace(key.rstrip("\n"), MARKER)


@pytest.mark.parametrize(
    ("pieces", "secret"),
    [
        (["I found it. The password is ", "k4n@rieVogel. Shall ", "I log in?"], "k4n@rieVogel"),
        (["The password ", "for the database ", "is ", "k4n@rieVogel."], "k4n@rieVogel"),
        # Without spaces, a text is cut anywhere.
        (["密sk-proj-a1B2c3D4", "e5F6g7H8i9J0k1L2, and more"], "e5F6g7H8"),
        (["密sk-p", "roj-a1B2c3D4e5F6g7H8i9J0k1L2, and more"], "e5F6g7H8"),
        (
            [f"{TOKENS['openai']} ", "and the passwords are ", "out of date. ", "password k4n@rieVogel"],
            "k4n@rie",
        ),
    ],
)
def test_a_streamed_secret_is_recognised_by_the_events_before(pieces: list[str], secret: str) -> None:
    texts, hide = StreamedTexts(), redactor_of(None)
    events = [
        SpoolEvent(seq=at, at=0, kind="text", data={"text": piece, "agent": agent})
        for at, (piece, agent) in enumerate([(piece, name) for piece in pieces for name in ("A", "B")], 1)
    ]
    rows = rows_of(Job(), events, hide, texts)
    for agent in ("A", "B"):
        shown = "".join(row.data["text"] for row in rows if row.data["agent"] == agent)
        assert secret not in shown and MARKER in shown
        assert shown.endswith(pieces[-1][-8:]) or secret in pieces[-1]
    # What is no secret on its own is shown in another answer.
    texts.redacted(SpoolEvent(seq=90, at=0, kind="model_started", data={"agent": "A"}), hide)
    event = SpoolEvent(seq=91, at=0, kind="text", data={"text": pieces[0], "agent": "A"})
    assert texts.redacted(event, hide)["text"] == hide(pieces[0])
