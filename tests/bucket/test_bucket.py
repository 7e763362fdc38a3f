"""Large stored copies are in the bucket, and their objects are replaced and deleted with them."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db.models import F
from django.test import Client
from pytest_django import Settings

from tests.bucket.conftest import forget
from tests.bucket.servers import Bucket
from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.host.jobs.retention import sizes
from viewer.host.locations.adding import remove_location
from viewer.host.locations.completing import complete_some
from viewer.host.locations.importing import import_location
from viewer.host.locations.pruning import plan_prune, prune
from viewer.host_requests import NotReadable, PruneRules
from viewer.models import BucketObject, Checkpoint, Location, Project, StoredCopy
from viewer.records.bodies import body_of, stored_bytes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of("1.15.30/json", tmp_path)


def copies() -> dict[str, bytes]:
    """The bodies of all stored copies by the keys of their checkpoints."""
    rows = Checkpoint.objects.select_related("stored_copy", "location")
    return {row.source_key: stored_bytes(row) for row in rows}


def named(bucket: Bucket) -> bool:
    """Whether the bucket has exactly the objects that the rows name."""
    keys = StoredCopy.objects.exclude(object=None).values_list("object_id", flat=True)
    return {f"forkline/{key}" for key in keys} == set(bucket.objects())


def test_large_bodies_are_in_the_bucket_and_small_ones_in_rows(
    bucket: Bucket, store: Path, settings: Settings
) -> None:
    settings.BUCKET_URL = ""
    location = imported_location(store)
    without, lengths = copies(), sorted(len(one.data) for one in StoredCopy.objects.all())
    remove_location(location)
    settings.BUCKET_URL, settings.BUCKET_MIN_BYTES = "s3://copies/forkline", lengths[len(lengths) // 2]
    imported_location(store)
    assert copies() == without
    in_rows = StoredCopy.objects.filter(object=None)
    assert max(len(one.data) for one in in_rows) < settings.BUCKET_MIN_BYTES
    assert not StoredCopy.objects.exclude(object=None).exclude(data=b"").exists()
    assert 0 < len(bucket.objects()) < len(lengths) and named(bucket)
    assert min(map(len, bucket.objects().values())) >= settings.BUCKET_MIN_BYTES
    shown = {one.label: one for one in sizes()}["Stored copies in the bucket"]
    assert (shown.count, shown.size) == (
        len(bucket.objects()),
        sum(map(len, bucket.objects().values())),
    )


def test_keys_say_nothing_of_what_they_name(bucket: Bucket, store: Path) -> None:
    imported_location(store)
    assert all(re.fullmatch(r"forkline/[0-9a-f]{32}", key) for key in bucket.objects())


def test_a_checkpoint_that_changed_gets_another_object(bucket: Bucket, store: Path) -> None:
    location = imported_location(store)
    before = bucket.objects()
    location.checkpoints.filter(row=0).update(fingerprint="")
    import_location(location)
    after = bucket.objects()
    assert len(after) == len(before) == len(after.keys() & before.keys()) + 1 and named(bucket)


def test_deleting_copies_deletes_their_objects(bucket: Bucket, store: Path) -> None:
    location = imported_location(store)
    rules = PruneRules(days=0, copies=True)
    before, plan = len(bucket.objects()), plan_prune(location, rules)
    assert prune(location, rules, plan.digest).copies == len(plan.rows) > 0
    assert len(bucket.objects()) == before - len(plan.rows) and named(bucket)
    row = location.checkpoints.filter(state=Checkpoint.State.NO_COPY).select_related("stored_copy")[0]
    with pytest.raises(NotReadable):
        body_of(row)


def test_removing_a_location_deletes_its_objects(bucket: Bucket, store: Path) -> None:
    location = imported_location(store)
    assert bucket.objects()
    remove_location(location)
    assert not bucket.objects() and not BucketObject.objects.exists()


SECRET = "correct-horse-battery-staple"


def imported_with_secret(store: Path) -> tuple[Location, Path]:
    """Import a location with a secret that nothing has named yet. Return it, and the file that has it."""
    file = sorted(store.rglob("*.json"))[0]
    file.write_text(json.dumps({**json.loads(file.read_text()), "note": SECRET}))
    location = imported_location(store)
    assert has_secret()
    return location, file


def has_secret() -> bool:
    return any(SECRET.encode() in body for body in copies().values())


def name_secret(location: Location, folder: Path) -> None:
    """Have the environment file of the location's project name the secret."""
    (folder / "environment").write_text(f"SOME_KEY={SECRET}\n")
    environment = str(folder / "environment")
    location.project = Project.objects.create(folder=str(folder), environment_file=environment)
    location.save()


def test_a_secret_that_becomes_known_is_in_no_object(bucket: Bucket, store: Path, tmp_path: Path) -> None:
    location, _file = imported_with_secret(store)
    before = bucket.objects()
    name_secret(location, tmp_path)
    import_location(location)
    assert len(copies()) == len(before) == len(bucket.objects()) == len(before.keys() & bucket.objects()) + 1
    assert not has_secret() and named(bucket)


def test_an_object_that_was_missing_when_a_secret_became_known_is_shown_once_it_is_redacted(
    bucket: Bucket, store: Path, tmp_path: Path, settings: Settings
) -> None:
    location, file = imported_with_secret(store)
    row = Checkpoint.objects.select_related("stored_copy", "location").get(source_key=file.relative_to(store))
    name_secret(location, tmp_path)
    # The source is gone, so the stored copy is all that is left.
    file.unlink()
    settings.BUCKET_URL = "s3://copies/another"
    import_location(location)
    settings.BUCKET_URL = "s3://copies/forkline"
    row.refresh_from_db()
    with pytest.raises(NotReadable):
        stored_bytes(row)
    import_location(location)
    row.refresh_from_db()
    assert b"[redacted]" in stored_bytes(row) and not has_secret() and named(bucket)
    assert not BucketObject.objects.exclude(state="named").exists()


def test_bodies_in_rows_move_to_the_bucket_once_it_is_set(
    bucket: Bucket, store: Path, settings: Settings
) -> None:
    settings.BUCKET_URL = ""
    imported_location(store)
    before = copies()
    settings.BUCKET_URL = "s3://copies/forkline"
    while complete_some():
        pass
    assert not StoredCopy.objects.filter(object=None).exists()
    assert named(bucket) and copies() == before


def test_the_doctor_finds_and_removes_what_a_crash_has_left(
    bucket: Bucket, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = imported_location(store)
    keys = list(StoredCopy.objects.order_by("pk").values_list("object_id", flat=True))
    client = bucket.client()
    # The process was killed after it had written the object, and after it had deleted a row.
    BucketObject.objects.create(pk="a" * 32, size=1, digest="")
    BucketObject.objects.update(created_at=F("created_at") - timedelta(hours=2))
    client.put_object(Bucket="copies", Key=f"forkline/{'a' * 32}", Body=b"1")
    StoredCopy.objects.filter(object=keys[0]).delete()
    client.put_object(Bucket="copies", Key="forkline/of-another-database", Body=b"1")
    client.delete_object(Bucket="copies", Key=f"forkline/{keys[1]}")
    with pytest.raises(SystemExit):
        call_command("checkpoints", "doctor")
    found = capsys.readouterr().out
    assert "no stored copy needs, which were deleted: 2" in found
    assert "have no stored copy: 1" in found
    assert "such as of another database: 1" in found
    left = {f"forkline/{key}" for key in keys[2:]}
    assert set(bucket.objects()) == {*left, "forkline/of-another-database"}
    client.delete_object(Bucket="copies", Key="forkline/of-another-database")
    row = Checkpoint.objects.select_related("stored_copy").get(stored_copy__object=keys[1])
    with pytest.raises(NotReadable) as missing:
        body_of(row)
    assert missing.value.message.code == "bucket.object_missing"
    # It is read again where it still is.
    location.checkpoints.filter(pk=row.pk).update(fingerprint="")
    import_location(location)
    assert body_of(Checkpoint.objects.select_related("stored_copy").get(pk=row.pk))


def test_the_doctor_says_that_the_bucket_is_not_set(
    bucket: Bucket, store: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    imported_location(store)
    settings.BUCKET_URL = ""
    with pytest.raises(SystemExit):
        call_command("checkpoints", "doctor")
    assert "BUCKET_URL is not set. Stored copies in the bucket:" in capsys.readouterr().out


def test_pages_show_copies_of_the_bucket(bucket: Bucket, store: Path, reader: Client) -> None:
    location = imported_location(store)
    forget()
    row = location.checkpoints.select_related("stored_copy").order_by("row")[0]
    assert reader.get(f"/checkpoints/{row.pk}/raw/").content == stored_bytes(row)
