"""Nothing is lost if the bucket is away, slow or changed, or if a process is killed."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.bucket.conftest import forget, use
from tests.bucket.servers import Bucket, Proxy
from tests.bucket.test_bucket import copies, named
from tests.environments import environment_with
from tests.imported import imported_location
from tests.jobs.conftest import ROOT
from tests.real_stores import copy_of, hashes_below
from viewer.host.locations.completing import complete_some
from viewer.host_requests import NotReadable
from viewer.models import BucketObject, Checkpoint, Location, StoredCopy
from viewer.records import bucket as records_bucket
from viewer.records.bodies import body_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of("1.15.30/json", tmp_path)


@pytest.fixture
def reading_only() -> Iterator[Bucket]:
    server = Bucket(checks=True)
    yield server
    server.end()


def first() -> Checkpoint:
    return Checkpoint.objects.select_related("stored_copy", "location").order_by("row")[0]


def reason() -> str:
    """Why the first checkpoint cannot be read."""
    with pytest.raises(NotReadable) as refused:
        body_of(first())
    return refused.value.message.code


def test_an_import_loses_nothing_while_the_bucket_is_away(
    bucket: Bucket, proxy: Proxy, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget()
    imported_location(store)
    before = copies()
    assert not StoredCopy.objects.exclude(object=None).exists() and not bucket.objects()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    forget()
    while complete_some():
        pass
    assert named(bucket) and len(bucket.objects()) == len(before) and copies() == before
    assert BucketObject.objects.filter(state=BucketObject.State.NAMED).count() == len(before)


def test_pages_say_that_the_bucket_is_away_and_show_the_rest(
    bucket: Bucket, store: Path, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = imported_location(store)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget()
    run = location.runs.order_by("pk")[0]
    page = reader.get(
        reverse("run", args=[run.uid]), {"at": run.checkpoints.order_by("row")[0].checkpoint_id}
    )
    text = page.content.decode()
    assert page.status_code == 200 and "The bucket s3://copies/forkline does not answer." in text
    assert all(row.branch in text for row in run.checkpoints.all())
    assert reader.get("/").status_code == 200
    raw = reader.get(reverse("checkpoint-raw", args=[first().pk]))
    assert raw.status_code == 404 and b"does not answer" in raw.content


def test_a_bucket_that_never_answers_holds_up_a_page_for_seconds_only(
    bucket: Bucket, proxy: Proxy, store: Path, reader: Client
) -> None:
    imported_location(store)
    forget()
    proxy.delay = 120
    began = time.monotonic()
    assert reason() == "bucket.away"
    assert time.monotonic() - began < records_bucket.READ_SECONDS + 2
    # Nobody waits for it again soon.
    began = time.monotonic()
    for row in Checkpoint.objects.all():
        assert reader.get(reverse("checkpoint-raw", args=[row.pk])).status_code == 404
    assert time.monotonic() - began < 5
    proxy.delay = 0
    forget()
    assert body_of(first())


def test_bytes_that_were_changed_or_cut_are_not_shown(bucket: Bucket, proxy: Proxy, store: Path) -> None:
    imported_location(store)
    key = f"forkline/{first().stored_copy.object_id}"
    data = bucket.objects()[key]
    for other in (data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b"", next(iter(bucket.objects().values()))):
        if other != data:
            bucket.client().put_object(Bucket="copies", Key=key, Body=other)
            assert reason() == "bucket.object_damaged"
    bucket.client().put_object(Bucket="copies", Key=key, Body=data)
    assert body_of(first())
    # The connection ends in the middle of each answer. What is left is asked for again, or the page says so.
    proxy.cut = len(data) // 2
    assert body_of(first())
    proxy.cut = 0
    assert reason() == "bucket.away"


def test_a_bucket_that_may_only_be_read_costs_nothing(
    reading_only: Bucket,
    store: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(reading_only, settings, monkeypatch)
    with caplog.at_level(logging.WARNING):
        imported_location(store)
        assert all(body_of(row) for row in Checkpoint.objects.select_related("stored_copy", "location"))
    assert "AccessDenied" in caplog.text and reading_only.secret not in caplog.text
    assert not StoredCopy.objects.exclude(object=None).exists()
    forget()


def test_wrong_credentials_are_named_without_being_shown(
    bucket: Bucket,
    reading_only: Bucket,
    store: Path,
    reader: Client,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    imported_location(store)
    reading_only.key, reading_only.secret = "AKIAWRONGWRONGWRONG1", "wrongwrongwrongwrongwrongwrong"
    use(reading_only, settings, monkeypatch)
    with caplog.at_level(logging.DEBUG):
        page = reader.get(reverse("checkpoint-raw", args=[first().pk])).content.decode()
    assert "InvalidAccessKeyId" in page and "Check its name, the credentials" in page
    for secret in (reading_only.key, reading_only.secret):
        assert secret not in page + caplog.text
    forget()


def test_without_credentials_it_says_so(bucket: Bucket, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported_location(store)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    forget()
    assert reason() in ("bucket.no_credentials", "bucket.away")


def test_a_process_that_is_killed_between_object_and_row_leaves_what_is_found(
    bucket: Bucket, store: Path, tmp_path: Path
) -> None:
    """The proxy kills it once the first object is written."""
    proxy, before = Proxy(bucket.port), hashes_below(store)
    own = {
        **bucket.variables(proxy.port),
        "BUCKET_URL": "s3://copies/killed",
        "BUCKET_MIN_BYTES": "1",
        "CHECKPOINT_ROOTS": str(tmp_path),
    }
    environment = environment_with(tmp_path / "data", **own)
    command = [sys.executable, "manage.py", "import_checkpoints", str(store)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)

    def kill(method: str) -> None:
        if method == "PUT":
            os.kill(process.pid, signal.SIGKILL)

    proxy.after = kill
    assert process.wait(60) == -signal.SIGKILL
    left = bucket.objects()
    assert left

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.stdout + ended.stderr

    proxy.after = lambda method: None
    run("import_checkpoints", str(store))
    # They may still be about to be named, and are not deleted at once.
    document = json.loads(run("checkpoints", "doctor", "--json"))
    assert left.keys() < bucket.objects().keys()
    assert not any(
        "Missing" in one["text"] or "of no stored copy" in one["text"] for one in document["findings"]
    )
    age = "from viewer.models import *; from django.utils.timezone import *; from datetime import *;"
    run("shell", "-c", f"{age} BucketObject.objects.update(created_at=now() - timedelta(hours=2))")
    assert "no stored copy needs, which were deleted" in run("checkpoints", "doctor")
    assert not left.keys() & bucket.objects().keys()
    assert hashes_below(store) == before
    proxy.end()


def test_two_processes_that_replace_a_copy_leave_one_object_and_readers_see_either(
    bucket: Bucket, store: Path
) -> None:
    imported_location(store)
    pk, valid = first().pk, body_of(first())
    data, stopping, seen = records_bucket.read(first().stored_copy), threading.Event(), list[object]()

    def replace() -> None:
        for _ in range(30):
            copy = StoredCopy.objects.get(pk=pk)
            records_bucket.replace_body(copy, data)
        connection.close()

    def read() -> None:
        while not stopping.is_set():
            try:
                row = Checkpoint.objects.select_related("stored_copy", "location").get(pk=pk)
                seen.append(body_of(row) == valid)
            except Exception as error:
                seen.append(error)
        connection.close()

    writers = [threading.Thread(target=replace) for _ in range(2)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stopping.set()
    for thread in readers:
        thread.join()
    assert len(seen) > 10 and set(map(str, seen)) == {"True"}
    records_bucket.delete_unused()
    assert named(bucket) and BucketObject.objects.count() == Location.objects.get().checkpoints.count()
