"""What a host sends of a store to another one: enough to run from a checkpoint, and nothing with a secret."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from django.utils import timezone

from tests.engine_runs.graphs import PROJECT
from tests.imported import imported_location
from tests.langgraph.conftest import opened
from viewer.host.jobs.savers import store_to_send
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Location, Project
from viewer.records.bodies import body_of

Threads = Callable[[str], Location]
SentFrom = Callable[[Checkpoint], Path]


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment file, which must not be where checkpoints are."""
    file = tmp_path_factory.mktemp("keys") / "project.env"
    file.touch()
    return file


@pytest.fixture
def sent(graph_python: Path, tmp_path: Path, keys: Path) -> SentFrom:
    """Return a function that returns the file which is sent for a checkpoint."""

    def written(checkpoint: Checkpoint) -> Path:
        location = checkpoint.location
        location.project = Project.objects.create(
            host=location.host,
            folder=str(PROJECT),
            interpreter=str(graph_python),
            environment_file=str(keys),
            confirmed_at=timezone.now(),
        )
        path = tmp_path / "sent.db"
        path.write_bytes(zstandard.ZstdDecompressor().decompress(store_to_send(checkpoint)))
        return path

    return written


def last_of(location: Location, thread: str) -> Checkpoint:
    return opened(location, thread).checkpoints.select_related("location", "run").latest("row")


@pytest.mark.parametrize(
    ("version", "thread"),
    [("lg02_76", "map-sub-waiting"), ("lg12", "fan-failed"), ("lg12_delta", "delta")],
)
def test_it_shows_the_checkpoint_as_its_source_does(
    threads: Threads, sent: SentFrom, version: str, thread: str
) -> None:
    checkpoint = last_of(threads(version), thread)
    copy = opened(imported_location(sent(checkpoint)), thread).checkpoints.get(
        checkpoint_id=checkpoint.checkpoint_id
    )
    assert body_of(copy) == body_of(checkpoint)


def test_only_what_a_run_needs_is_in_it(threads: Threads, sent: SentFrom) -> None:
    with closing(sqlite3.connect(sent(last_of(threads("lg12"), "appr-done")))) as file:
        assert file.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE writes SET type = 'pickle' WHERE thread_id = 'fan-failed'",
        "UPDATE writes SET type = 'json', value = '\"sk-proj-abcdefghijklmnopqrstuvwx123456\"'"
        " WHERE thread_id = 'fan-failed'",
        "UPDATE writes SET type = 'json', value = '\"violet-harbour-31\"' WHERE thread_id = 'fan-failed'",
        "UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 'fan-failed'",
        # Only the size of bytes and of arrays is shown.
        "UPDATE writes SET type = 'bytes', value = 'violet-harbour-31' WHERE thread_id = 'fan-failed'",
        "UPDATE writes SET value = x'c41176696f6c65742d686172626f75722d3331' WHERE thread_id = 'fan-failed'",
        "UPDATE writes SET value = x'c71d0694a47c5331379101a143c41176696f6c65742d686172626f75722d3331'"
        " WHERE thread_id = 'fan-failed'",
    ],
)
def test_nothing_is_sent_with_a_secret_or_with_what_cannot_be_searched(
    threads: Threads, sent: SentFrom, keys: Path, statement: str
) -> None:
    checkpoint = last_of(threads("lg12"), "fan-failed")
    keys.write_text("TOKEN=violet-harbour-31\n")
    with closing(sqlite3.connect(checkpoint.location.path)) as file, file:
        file.execute(statement)
    with pytest.raises(NotReadable, match="secrets do not leave their host"):
        sent(checkpoint)


def test_too_much_is_not_sent(threads: Threads, sent: SentFrom) -> None:
    checkpoint = last_of(threads("lg12"), "fan-failed")
    with closing(sqlite3.connect(checkpoint.location.path)) as file, file:
        file.execute(
            "UPDATE writes SET type = 'null', value = zeroblob(40000000) WHERE thread_id = 'fan-failed'"
        )
    with pytest.raises(NotReadable, match="more than 32 MB"):
        sent(checkpoint)
