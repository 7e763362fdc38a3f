"""Names of files, branches and tasks cannot break or forge a line of the terminal."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.real_stores import copy_of
from viewer.cli import SUBCOMMANDS, as_json
from viewer.data_folder.locks import serving
from viewer.models import Checkpoint, Job, Question
from viewer.validation import one_line

pytestmark = pytest.mark.django_db

FORGED = "succeeded: all is well"
# Each ends a line, hides it or reorders it in some terminal.
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
ORDERS = ["\x1b[2K\x1b[1A", "\x08", "\x00", "\x7f", "\x9b31m", "\u202e", "\u2066", "\u200f", "\u061c", "\t"]
UNSAFE = set("".join(BREAKS + ORDERS)) - set("[2K1A31m\n")


@pytest.mark.parametrize("sign", BREAKS + ORDERS)
def test_control_characters_are_escaped_in_a_line(sign: str) -> None:
    line = one_line(f"name{sign}{FORGED}")
    assert line.splitlines() == [line] and line.isprintable()
    assert one_line("naïve 検査 🧪 👩\u200d🔬 a b") == "naïve 検査 🧪 👩\u200d🔬 a b"
    document = as_json({"name": f"name{sign}{FORGED}"})
    assert document.splitlines() == [document] and document.isprintable()
    assert json.loads(document) == {"name": f"name{sign}{FORGED}"}


def test_arguments_that_are_not_utf8_are_refused_in_one_line(tmp_path: Path) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    checkpoint = f"{store}#20261120T232827_0aa12db3"
    unencodable = "caf\udce9"
    (folder := tmp_path / unencodable).mkdir()
    for arguments in (
        ("note", checkpoint, "--name", unencodable),
        ("info", f"{store}#{unencodable}"),
        ("fork", checkpoint, "--project", str(folder), "--wait"),
        ("fork", checkpoint, "--python", str(folder / "python"), "--wait"),
    ):
        with pytest.raises(CommandError) as refused:
            call_command("checkpoints", *arguments)
        assert str(refused.value).isprintable() and "caf" in str(refused.value)


def hostile_store(folder: Path) -> Path:
    """A location whose name, files and texts contain line breaks and control characters."""
    store = copy_of("1.15.30/json", folder)
    path = next(store.rglob("*35ce9d75_p-none*"))
    for name in ("Review the summary", "research"):
        path.write_text(path.read_text().replace(name, json.dumps(f"{name}\n{FORGED}\u202e")[1:-1]))
    for number, sign in enumerate([*BREAKS[:-2], "\u2028", "\x1b[2K", "\u202e"]):
        (store / "main" / f"{number}{sign}{FORGED}.json").write_text("{")
    return store.rename(store.with_name(f"store\n{FORGED}\x1b[1A"))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """All lines that a command prints for a person, on both streams; its refusal is one of them."""
    capsys.readouterr()
    refusal = ""
    try:
        call_command(*arguments)
    except CommandError as error:
        refusal = f"CommandError: {error}\n"
    except SystemExit:
        pass
    printed = capsys.readouterr()
    text = printed.out + printed.err + refusal
    assert not UNSAFE & set(text), (arguments, UNSAFE & set(text))
    return text.split("\n")


def hostile_calls(store: Path) -> dict[str, list[list[str]]]:
    """Return calls of each command with names and values that contain a line break."""
    folder, target = store.parent, f"{store}#20261120T232826_35ce9d75"
    broken = next(path for path in (store / "main").iterdir() if FORGED in path.name)
    return {
        "list": [[str(store)], [f"{store}\n{FORGED}"]],
        "info": [[target], [str(broken)], [f"{store}#{FORGED}\n{FORGED}"], [f"{target}\n{FORGED}"]],
        "replay": [[target, "0123456789ab", "--plan"], [target, f"x\n{FORGED}", "--plan"]],
        "call": [[target], [target, f"x\n{FORGED}"], [f"{target}\n{FORGED}"]],
        "fork": [
            [target, "--branch", f"new\n{FORGED}", "--plan"],
            [target, "--branch", "new", "--plan"],
            [target, "--again", f"x\n{FORGED}", "--plan"],
        ],
        "resume": [[target, "--plan"], [target, "--project", f"/nowhere\n{FORGED}"]],
        "sweep": [
            [target, "--vary", f'topic=["a\\n{FORGED}", "b"]', "--plan"],
            [target, "--vary", f"x\n{FORGED}=[1]", "--plan"],
        ],
        "bulk": [
            ["resume", target, f"{target}\n{FORGED}", "--plan"],
            ["fork", target, "--input", f"x\n{FORGED}=1", "--plan"],
        ],
        "run": [[str(store), "--project", f"{folder}/\n{FORGED}"], [f"file://x\n{FORGED}/y"]],
        "answer": [[f"x\n{FORGED}", "--text", "yes"]],
        "cancel": [[f"x\n{FORGED}"]],
        "remove": [[f"{store}\n{FORGED}"]],
        "backup": [[f"{folder}/copy\n{FORGED}"], [f"{folder}/copy\n{FORGED}"]],
        "restore": [[f"{folder}/none\n{FORGED}"]],
        "audit": [[], ["--who", f"x\n{FORGED}"], ["--object", f"x\n{FORGED}"]],
        "isolation": [
            [str(store)],
            [f"{store}\n{FORGED}"],
            [str(store), "--launcher", "landlock", "--read", f"/x\n{FORGED}"],
            [str(store), "--launcher", f"x\n{FORGED}"],
            [str(store), "--launcher", "bubblewrap", "--network", "hosts", "--allow", f"x\n{FORGED}"],
        ],
        "hosts": [[], ["--drain", f"x\n{FORGED}"], ["--pool", f"x\n{FORGED}", f"y\n{FORGED}"]],
        "roles": [
            ["--person", f"x\n{FORGED}", "--give", "viewer"],
            ["--team", f"x\n{FORGED}", "--add", f"y\n{FORGED}"],
            ["--person", "ada", "--give", "viewer", "--location", f"x\n{FORGED}"],
            ["--person", "ada", "--give", "viewer"],
            ["--team", f"none\n{FORGED}", "--delete"],
            ["--team", f"x\n{FORGED}", "--quota", "runs=3"],
            ["--team", "x", "--quota", f"runs\n{FORGED}=3"],
        ],
        "comments": [
            [target, "--add", f"x\n{FORGED}"],
            [target, "--run"],
            [target, f"{target}\n{FORGED}"],
            [f"{target}\n{FORGED}"],
            [target, "--reply-to", "999", "--add", f"x\n{FORGED}"],
        ],
        "tokens": [
            ["--new", f"x\n{FORGED}", "--person", f"y\n{FORGED}"],
            ["--new", "ci", "--person", "ada", "--location", f"{store}\n{FORGED}"],
            ["--revoke", "999"],
            [],
        ],
        "keys": [[str(store)], [f"{store}\n{FORGED}"], [str(store), "--keep", f"x\n{FORGED}"]],
        "move": [["--to", f"postgresql://x@127.0.0.1:1/x\n{FORGED}"], ["--to", FORGED]],
        "doctor": [[]],
        "note": [[target, "--name", f"name\n{FORGED}"], [f"{target}\n{FORGED}"]],
        "diff": [[target, target], [target, f"{target}\n{FORGED}"]],
        "search": [["summary"], [FORGED], [f"x\n{FORGED}", "--location", f"{store}\n{FORGED}"]],
        "prune": [[str(store), "--days", "0", "--dry-run"], [f"{store}\n{FORGED}", "--days", "1"]],
        "score": [[target, f"module:function\n{FORGED}"], [f"{target}\n{FORGED}", "a:b"]],
        "export": [[target, "--format", "markdown", "--output", f"{folder}/none\n{FORGED}/x"]],
        "publish": [[target, "--plan"], [f"{target}\n{FORGED}", "--plan"]],
        "clean": [["--dry-run"]],
        "collection": [
            [f"teas\n{FORGED}"],
            ["teas", "--add", target, "--note", f"x\n{FORGED}", "--expected", f"x\n{FORGED}"],
            ["teas"],
            [],
            ["teas", "--add", f"{target}\n{FORGED}"],
            ["teas", "--add", target, "--call", FORGED],
            ["teas", "--import", f"x\n{FORGED}"],
            ["teas", "--export", f"{folder}/none\n{FORGED}/x"],
            ["teas", "--remove", "999"],
            ["teas", "--delete"],
        ],
        "invitations": [
            ["--role", "viewer", "--location", str(store)],
            ["--team", f"x\n{FORGED}"],
            ["--role", "viewer", "--location", f"{store}\n{FORGED}"],
            ["--revoke", "999"],
            [],
        ],
        "shares": [
            ["--make", target],
            ["--make", target, "--run", "--dry-run"],
            ["--make", f"{target}\n{FORGED}"],
            ["--make", f"x\n{FORGED}"],
            ["--revoke", "1"],
            ["--revoke", "999"],
            [],
        ],
    }


def test_no_command_prints_a_forged_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = hostile_store(tmp_path)
    commands = hostile_calls(store)
    # A new command fails this test until its output is checked.
    assert set(commands) >= set(SUBCOMMANDS)
    for name, calls in commands.items():
        for arguments in calls:
            lines = printed(capsys, "checkpoints", name, *arguments)
            assert any(lines) and not any(line.startswith(FORGED) for line in lines), (name, lines)
    lines = printed(capsys, "import_checkpoints", str(store))
    assert not any(line.startswith(FORGED) for line in lines) and r"store\nsucceeded" in lines[0]


def test_each_question_is_printed_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("import_checkpoints", str(copy_of("1.15.30/json", tmp_path)))
    row = Checkpoint.objects.all()[0]
    job = Job.objects.create(kind=Job.Kind.FORK, location=row.location, checkpoint=row, status="running")
    Question.objects.create(job=job, number=1, kind="text_input", prompt=f"Which?\r{FORGED}\u2028{FORGED}")
    # With a worker, the command leaves the job to it.
    with serving(1):
        lines = printed(capsys, "checkpoints", "answer")
    assert [line for line in lines if line] == [f"{job.pk} 1  Which? {FORGED} {FORGED}"]
