"""Reads checkpoint savers whose processes answer at random, and savers of projects that misbehave.

Passes if each read ends in time, with checkpoints or with a reason, if no answer ends the reader, and if
nothing that is read shows a secret of the project.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import ormsgpack

from quality.tables import print_heading, print_row
from viewer.engines.langgraph.identifiers import MAX_ID_LENGTH, MAX_RUN_KEY
from viewer.engines.langgraph.store_format import STORE_FORMAT
from viewer.host.reading.snapshots import read_snapshot
from viewer.redaction.known_secrets import known_secrets
from viewer.stores import SaverAddress
from viewer.stores.protocol import Entry, LocationUnreadable, ReadLimits, Unreadable

# The share of answers that are whole, so that damaged ones come at any place.
STORES, WHOLE = 5_000, 0.98
SECRET = "kd83-Tz0q-Vu71-Lm5x"
LIMITS = ReadLimits(max_bytes=1024 * 1024)
IDS = [f"1f1e53d4-{number:04x}-6000-8{number:03x}-{number:012x}" for number in range(4)]
STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        2**31,
        2**62,
        2**64 - 1,
        float("nan"),
        "",
        "\0",
        "\u202e",
        "/#|\n",
        "x" * 5_000,
        SECRET,
        b"\xff",
    ),
    *(
        [],
        {},
        [[]],
        {"a": {}},
        ormsgpack.Ext(5, b"\xc1"),
        ormsgpack.Ext(127, b""),
        "__interrupt__",
        "../../etc",
    ),
)

ROOT = Path(__file__).resolve().parents[2]
GRAPH_PYTHON = ROOT / "demo/support/.venv/bin/python"
RUNNER = ROOT / "viewer/runners/saver_runner.py"
# Twice the limit of one answer.
MAX_SECONDS = 60
PROJECT = """
import os, sys
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

ID = "1f1e53d4-98d2-65b6-8003-a1b88b75de50"
SECRET = os.environ["SERVICE_TOKEN"]

class Endless(list):
    def __iter__(self):
        while True:
            yield 1

class Raising(dict):
    def keys(self):
        raise SystemExit
    items = __len__ = __iter__ = keys

class Lying(str):
    def __str__(self):
        raise KeyboardInterrupt
    __class__ = int

class Pickled:
    def __reduce__(self):
        return os.mkdir, ("made",)

def tuple_of(value=1, thread="t", **changed):
    checkpoint = {"v": 1, "id": ID, "channel_values": {"a": value}, "channel_versions": {"a": 1}}
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": ID}}
    found = dict(config=config, checkpoint=checkpoint, metadata={"source": "loop", "step": 3},
        parent_config=None, pending_writes=[])
    return CheckpointTuple(**{**found, **changed})

def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value

cyclic = []
cyclic.append(cyclic)

class Saver(BaseCheckpointSaver):
    def get_tuple(self, config):
        return next(iter(self.list(config)), None)

    def list(self, config, *, filter=None, before=None, limit=None):
"""
BODIES = (
    *("raise ValueError(SECRET)", "raise SystemExit", "raise KeyboardInterrupt", "os._exit(0)", "os.abort()"),
    *("return None", "return [None]", "return [{}]", "return iter([tuple_of(config={})])"),
    *("yield tuple_of(Endless())", "yield tuple_of(Raising())", "yield tuple_of(Lying())"),
    *("yield tuple_of(Pickled())", "yield tuple_of(cyclic)", "yield tuple_of(nested(900))"),
    *("yield tuple_of(nested(100_000))", "yield tuple_of('\\udc80')", "yield tuple_of(2**70)"),
    *(
        "yield tuple_of(b'x' * 2**28)",
        "yield tuple_of(thread='x' * 2**20)",
        "yield tuple_of(metadata=cyclic)",
    ),
    "yield tuple_of(SECRET, thread=SECRET, metadata={'source': SECRET, SECRET: SECRET})",
    "yield tuple_of(pending_writes=[(SECRET, '__interrupt__', SECRET), (1, 2, 3)])",
    *("self.put({}, {}, {}, {})", "self.delete_thread('t')", "os.fork(); yield tuple_of()"),
    *("print('x' * 2**20); yield tuple_of()", "os.closerange(0, 99); yield tuple_of()"),
    *("os.write(0, b'x'); yield tuple_of()", "while True: print('x' * 2**20)", "while True: pass"),
)


def body_of(number: int) -> bytes:
    """A checkpoint as LangGraph encodes it. One of its values has a secret, another names a class."""
    values = {"topic": f"cats {SECRET}", "tool": ormsgpack.Ext(1, ormsgpack.packb(["os", "mkdir", ["x"]]))}
    body = {
        "v": 4,
        "ts": "",
        "id": IDS[number],
        "channel_values": values,
        "channel_versions": {"topic": number},
    }
    return ormsgpack.packb({**body, "versions_seen": {}})


def honest_answer(request: list[Any]) -> dict[str, Any]:
    """What a saver answers that has two threads of four checkpoints each, and one of a subgraph."""
    writes = [["task", 0, "topic", 9, ormsgpack.packb("dogs")], ["task", -3, "__interrupt__", 4, b"\xa3yes"]]
    metadata = msgspec.json.encode({"source": "loop", "step": 1, "parents": {}, "note": SECRET})
    bodies = [body_of(number) for number in range(len(IDS))]
    match request:
        case ["threads"]:
            return {"threads": [(f"thread {SECRET}", IDS[-1], "a"), ("other", IDS[-1], "b")]}
        case ["thread", *_]:
            parents = ["", *IDS]
            rows = [[one, parents[at], len(bodies[at]), metadata, writes] for at, one in enumerate(IDS)]
            return {"rows": [["", *row] for row in rows] + [["inner:1", *rows[0]]]}
        case ["checkpoint", _thread, _namespace, str(own_id), *_] if own_id in IDS:
            body = bodies[IDS.index(own_id)]
            return {"checkpoint": ["", len(body), body, metadata, writes]}
    return {"checkpoint": None}


def changed(value: Any, chance: random.Random) -> Any:
    """A value with something else in one place."""
    if chance.random() < 0.2 or not isinstance(value, (list, tuple, dict, bytes)) or not value:
        # Mostly of the same type, so that it is not refused as a whole.
        alike = [one for one in STRANGE if type(one) is type(value)]
        return chance.choice(alike if alike and chance.random() < 0.8 else STRANGE)
    if isinstance(value, bytes):
        at = chance.randrange(len(value))
        return value[:at] + chance.randbytes(chance.randrange(9)) + value[at + chance.randrange(9) :]
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = chance.choice(places)
    found = dict(value) if isinstance(value, dict) else list(value)
    found[place] = changed(value[place], chance)
    return found


def frame_of(request: list[Any], chance: random.Random) -> bytes:
    """The bytes of an answer, which may be damaged."""
    answer = honest_answer(request)
    if chance.random() < WHOLE:
        return framed(ormsgpack.packb(answer))
    if chance.random() < 0.1:
        refusal = {"code": chance.choice(("saver.failed", "no.code", "", SECRET)), "values": {"kind": SECRET}}
        return framed(ormsgpack.packb({"error": refusal}))
    for _ in range(chance.randrange(1, 3)):
        answer = changed(answer, chance)
    try:
        data = ormsgpack.packb(answer, option=ormsgpack.OPT_NON_STR_KEYS)
    except ormsgpack.MsgpackEncodeError:
        data = b"\xc1"
    data = changed(data, chance) if chance.random() < 0.1 else data
    if isinstance(data, bytes) and chance.random() > 0.03:
        return framed(data)
    # Longer than what follows, or longer than may be read.
    return chance.choice((framed(b"x" * 99)[:50], b"\xff" * 8, b"", b"\0" * 4))


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@contextmanager
def answering(chance: random.Random) -> Iterator[SaverAddress]:
    """A process of a saver that answers like this. It closes its connection after a broken frame."""
    with tempfile.TemporaryDirectory(prefix="fl-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/saver"
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=answer_all, args=(listener, chance), daemon=True)
        thread.start()
        yield SaverAddress(path)
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def answer_all(listener: socket.socket, chance: random.Random) -> None:
    with suppress(OSError), listener.accept()[0] as source, source.makefile("rb") as requests:
        while size := requests.read(4):
            request = ormsgpack.unpackb(requests.read(int.from_bytes(size, "big")))
            frame = frame_of(request, chance)
            source.sendall(frame)
            if len(frame) < 4 or int.from_bytes(frame[:4], "big") != len(frame) - 4:
                return


def try_answers(seed: int, counts: Counter[str]) -> str:
    """Read a saver that answers at random. Return what was wrong; empty if nothing was."""
    with answering(random.Random(seed)) as address:
        return what_is_wrong(address, counts)


def try_project(body: str, counts: Counter[str]) -> str:
    """Read the saver of a project whose method ``list`` has this body. Return what was wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fl-") as folder, socket.socket(socket.AF_UNIX) as listener:
        (Path(folder) / "hostile.py").write_text(f"{PROJECT}        {body}\n\nsaver = Saver()\n")
        listener.bind(f"{folder}/saver")
        listener.listen()
        reading, end = os.pipe()
        command = [str(GRAPH_PYTHON), str(RUNNER), "serve", folder, "hostile:saver", str(reading)]
        with subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "SERVICE_TOKEN": SECRET},
            stdin=listener.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(reading,),
        ) as process:
            os.close(reading)
            listener.close()
            wrong = what_is_wrong(SaverAddress(f"{folder}/saver"), counts)
            os.close(end)
            # What it has started as well.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    seconds = time.monotonic() - began
    return wrong or (f"it took {seconds:.0f} seconds" if seconds > MAX_SECONDS else "")


def what_is_wrong(address: SaverAddress, counts: Counter[str]) -> str:
    """Read everything of a saver. Return what was wrong; empty if nothing was."""
    shown = list[object]()
    try:
        read_all(address, counts, shown)
    except LocationUnreadable as error:
        counts["refused"] += 1
        shown.append(error.message)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "a secret is shown" if SECRET in repr(shown) else ""


def read_all(address: SaverAddress, counts: Counter[str], shown: list[object]) -> None:
    """Add what is read of a saver to ``shown``. Raises LocationUnreadable."""
    known = known_secrets((SECRET,))
    with STORE_FORMAT.indexed_store(address, LIMITS, [STORE_FORMAT], known) as store:
        found = store.runs()
        keys = [run.key for run in found.runs]
        shown += [found, store.details(keys)]
        assert all(len(key) <= MAX_RUN_KEY for key in keys), "The key of a run is too long."
        for key in keys:
            index = store.index(key)
            shown.append(index)
            for snapshot in index.snapshots:
                assert len(snapshot.checkpoint_id) <= MAX_ID_LENGTH, "The id of a checkpoint is too long."
                entry = store.entry(snapshot.key)
                try:
                    shown.append(read_snapshot(store, entry, known) if isinstance(entry, Entry) else entry)
                    counts["read"] += 1
                except Unreadable as error:
                    counts["not read"] += 1
                    shown.append(error.message)


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    counts, wrong = tried(range(STORES))
    of_projects = Counter[str]()
    reasons = {body: try_project(body, of_projects) for body in BODIES}
    print_heading("savers", "tried", "checkpoints read", "not read", "refused", "wrong")
    for name, tries, found, count in (
        ("answer at random", STORES, counts, len(wrong)),
        ("of hostile projects", len(BODIES), of_projects, sum(map(bool, reasons.values()))),
    ):
        print_row(name, tries, found["read"], found["not read"], found["refused"], count)
    wrong += [f"{body}: {reason}" for body, reason in reasons.items() if reason]
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


def tried(seeds: range) -> tuple[Counter[str], list[str]]:
    """Read savers with these seeds. Return what happened, and what was wrong."""
    counts = Counter[str]()
    reasons = {seed: try_answers(seed, counts) for seed in seeds}
    return counts, [f"seed {seed}: {reason}" for seed, reason in reasons.items() if reason]


if __name__ == "__main__":
    sys.exit(main())
