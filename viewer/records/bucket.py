"""Large stored copies in a bucket, if ``BUCKET_URL`` is set.

Each object has a row, which is committed before the object is written and deleted after it, so that a killed
process leaves no object without a row. Objects are never overwritten: a copy that changes gets a new one.
"""

import hashlib
import logging
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Length, Now

from viewer.host_requests import NotReadable
from viewer.messages.translation import translate
from viewer.models import BucketObject, Location, StoredCopy
from viewer.models.rows import in_slices
from viewer.stores.protocol import Packed

if TYPE_CHECKING:
    from obstore.store import S3Store

logger = logging.getLogger("forkline.bucket")

Result = TypeVar("Result")
# Timeouts in seconds. Pages only read.
READ_SECONDS, WRITE_SECONDS, CONNECT_SECONDS = 5, 60, 2
# A large object may take longer to read.
READ_BYTES_A_SECOND = 1 << 20
# After a request without an answer, none is sent for these seconds, so that not every page waits.
PAUSE_SECONDS = 30.0
CONCURRENT_REQUESTS = 8
# An object that no copy names after this time was left by a killed process.
ABANDONED_AFTER = timedelta(hours=1)
# Objects in one request, and the most objects that are deleted while a person waits.
BATCH, MAX_DELETED_AT_ONCE = 1000, 100
# Bodies that are moved from rows at once, and seconds until the next try if they cannot be written.
MOVED, MOVE_SECONDS = 20, 60.0
# The states of objects that a copy names.
NAMED = (BucketObject.State.NAMED, BucketObject.State.UNREDACTED)
# What S3 reports, such as NoSuchBucket. The rest of an error may name the key of the credentials.
ERROR_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
# Where the client asks for credentials if none are set.
METADATA_SERVER = "http://169.254."


class BucketAway(NotReadable):
    """The bucket cannot be used now. The message says why."""


# Its modules import each other, so a thread could see one that another thread has not finished.
LOADING = Lock()


class _Backoff:
    """When this process tries again, in seconds of the monotonic clock."""

    # No request is sent before.
    paused_until = 0.0
    # Rows are not searched for large bodies before. Infinite if none is left, until one cannot be written.
    move_at = 0.0


def is_used() -> bool:
    """Whether large stored copies are written to a bucket."""
    return bool(settings.BUCKET_URL)


@cache
def _store(url: str, seconds: int) -> "S3Store":
    with LOADING:
        from obstore.store import S3Store
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return S3Store.from_url(
        url,
        client_options={
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=seconds),
            "allow_http": is_plain,
        },
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=CONNECT_SECONDS)},
    )


def _send(seconds: int, request: Callable[["S3Store"], Result]) -> Result:
    """Return the answer to a request. Raises BucketAway, or FileNotFoundError if the object is missing."""
    if not settings.BUCKET_URL:
        raise BucketAway("bucket.not_set")
    if time.monotonic() < _Backoff.paused_until:
        raise BucketAway("bucket.away", bucket=settings.BUCKET_URL)
    with LOADING:
        from obstore.exceptions import BaseError
    try:
        return request(_store(settings.BUCKET_URL, seconds))
    except (BaseError, FileNotFoundError, ValueError) as error:
        found, is_missing = ERROR_CODE.search(str(error)), isinstance(error, FileNotFoundError)
        if is_missing and (found is None or found[1] == "NoSuchKey"):
            raise FileNotFoundError from None
        if found:
            raise BucketAway("bucket.refused", bucket=settings.BUCKET_URL, code=found[1]) from None
        _Backoff.paused_until = time.monotonic() + PAUSE_SECONDS
        code = "bucket.no_credentials" if METADATA_SERVER in str(error) else "bucket.away"
        raise BucketAway(code, bucket=settings.BUCKET_URL) from None


def _get(key: str, size: int) -> bytes:
    seconds = READ_SECONDS + size // READ_BYTES_A_SECOND
    return _send(seconds, lambda store: bytes(store.get(key).bytes()))


def _put(key: str, body: bytes) -> None:
    _send(WRITE_SECONDS, lambda store: store.put(key, body, use_multipart=False))


def _delete(keys: Sequence[str]) -> None:
    _send(WRITE_SECONDS, lambda store: store.delete(keys))


def read(copy: StoredCopy, *, to_redact: bool = False) -> bytes:
    """Return the compressed body of a stored copy. Raises NotReadable, or BucketAway to try again later.

    Only ``to_redact`` reads an object that may hold a secret which became known while it was missing.
    """
    while copy.object_id is not None:
        key = copy.object_id
        try:
            found = BucketObject.objects.get(pk=key)
            if found.state == BucketObject.State.UNREDACTED and not to_redact:
                raise NotReadable("bucket.object_missing", bucket=settings.BUCKET_URL)
            data = _get(key, found.size)
        except (BucketObject.DoesNotExist, FileNotFoundError):
            # Another process may have replaced or deleted the copy meanwhile.
            try:
                copy.refresh_from_db(fields=["data", "object"])
            except StoredCopy.DoesNotExist:
                raise NotReadable("import.copy_deleted") from None
            if copy.object_id == key:
                raise NotReadable("bucket.object_missing", bucket=settings.BUCKET_URL) from None
            continue
        if hashlib.sha256(data).hexdigest() != found.digest:
            raise NotReadable("bucket.object_damaged", bucket=settings.BUCKET_URL)
        return data
    if not copy.data:
        raise NotReadable("import.copy_deleted")
    return bytes(copy.data)


def mark_redacted(copy: StoredCopy, *, is_redacted: bool) -> None:
    """Record whether the object of a copy, if it has one, can be shown."""
    states = BucketObject.State
    former, state = (states.UNREDACTED, states.NAMED) if is_redacted else (states.NAMED, states.UNREDACTED)
    BucketObject.objects.filter(pk=copy.object_id, state=former).update(state=state)


# Write objects before the rows that name them. If the bucket is away, the row has the body until it is back.


def with_objects(packed: Sequence[Packed]) -> list[Packed]:
    """Write the large bodies to the bucket, and return all with the keys of their objects."""
    keys = write([one.data for one in packed])
    return [
        replace(one, data=b"", object_key=key) if key else one for one, key in zip(packed, keys, strict=True)
    ]


def write(bodies: Sequence[bytes]) -> list[str | None]:
    """Write an object for each large body. Return their keys; None for a body that its row has to hold.

    Requires that no transaction is open, since the rows of the objects are committed before.
    """
    keys: list[str | None] = [None] * len(bodies)
    large = {at: one for at, one in enumerate(bodies) if len(one) >= settings.BUCKET_MIN_BYTES}
    if not large or not is_used():
        return keys
    objects = [
        BucketObject(pk=uuid.uuid4().hex, size=len(one), digest=hashlib.sha256(one).hexdigest())
        for one in large.values()
    ]
    BucketObject.objects.bulk_create(objects, batch_size=BATCH)
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as threads:
        results = list(threads.map(_write_one, (one.pk for one in objects), large.values()))
    if away := next((one for one in results if isinstance(one, BucketAway)), None):
        logger.warning("large stored copies stay in their rows for now: %s", translate(away))
        _Backoff.move_at = time.monotonic() + MOVE_SECONDS
    for at, result in zip(large, results, strict=True):
        keys[at] = result if isinstance(result, str) else None
    return keys


def _write_one(key: str, body: bytes) -> str | BucketAway:
    try:
        _put(key, body)
    except BucketAway as away:
        return away
    return key


def replace_body(copy: StoredCopy, body: bytes) -> bool:
    """Replace the body of a copy. Return False if another process has done so since it was loaded."""
    (key,) = write([body])
    return _replace(copy, b"" if key else body, key)


@transaction.atomic
def _replace(copy: StoredCopy, data: bytes, key: str | None) -> bool:
    rows = StoredCopy.objects.filter(pk=copy.pk, data=copy.data, object=copy.object_id)
    release(rows)
    is_replaced = bool(rows.update(data=data, object=key))
    if key and is_replaced:
        name_objects([key])
    elif key:
        BucketObject.objects.filter(pk=key).update(state=BucketObject.State.UNUSED)
    return is_replaced


def move_some(locations: QuerySet[Location]) -> bool:
    """Move large bodies of these locations from rows, where they are while the bucket is away or not set.

    Return whether there may be more.
    """
    if not is_used() or time.monotonic() < _Backoff.move_at:
        return False
    rows = StoredCopy.objects.filter(checkpoint__location__in=locations, object=None)
    large = rows.annotate(length=Length("data")).filter(length__gte=settings.BUCKET_MIN_BYTES)
    found = list(large.only("data", "object")[:MOVED])
    _Backoff.move_at = 0.0 if found else math.inf
    for copy, key in zip(found, write([bytes(copy.data) for copy in found]), strict=True):
        if key:
            _replace(copy, b"", key)
    return _Backoff.move_at == 0.0


def name_objects(keys: Sequence[str]) -> None:
    """Record that copies name these objects from now on, in the transaction that stores the copies.

    Raises OSError if an object was written so long ago that it is being deleted.
    """
    written = BucketObject.objects.filter(pk__in=keys, state=BucketObject.State.WRITTEN)
    if keys and written.update(state=BucketObject.State.NAMED) != len(keys):
        raise OSError("the import took too long")


# Delete objects once no row names them.


def release(copies: QuerySet[StoredCopy]) -> None:
    """Delete the objects of these copies after the transaction, which replaces or deletes the copies."""
    keys = list(copies.exclude(object=None).order_by().values_list("object_id", flat=True))
    for some in in_slices(keys):
        BucketObject.objects.filter(pk__in=some).update(state=BucketObject.State.UNUSED)
    if keys:
        transaction.on_commit(partial(delete_unused, MAX_DELETED_AT_ONCE))


def delete_unused(most: int | None = None) -> int:
    """Delete objects that no copy names any more, at most ``most``. Return how many were deleted.

    Those that cannot be deleted now are deleted later.
    """
    states, deleted = BucketObject.State, 0
    abandoned = BucketObject.objects.filter(state=states.WRITTEN, created_at__lt=Now() - ABANDONED_AFTER)
    abandoned.update(state=states.UNUSED)
    unused = BucketObject.objects.filter(state=states.UNUSED).order_by("pk").values_list("pk", flat=True)
    while keys := list(unused[: most or BATCH]):
        try:
            _delete(keys)
        except BucketAway as away:
            logger.warning("%d objects are deleted later: %s", len(keys), translate(away))
            break
        deleted += BucketObject.objects.filter(pk__in=keys).delete()[0]
        if most:
            break
    return deleted


# Compare the rows with the bucket.


def check_writable() -> None:
    """Write an object and delete it. Raises BucketAway."""
    probe = BucketObject.objects.create(
        pk=uuid.uuid4().hex, size=0, digest="", state=BucketObject.State.UNUSED
    )
    _put(probe.pk, b"")
    _delete([probe.pk])
    probe.delete()


def release_unnamed() -> None:
    """Release the objects whose copies were deleted with something else, such as their location."""
    unnamed = BucketObject.objects.filter(state__in=NAMED, copies=None)
    BucketObject.objects.filter(pk__in=unnamed.values("pk")).update(state=BucketObject.State.UNUSED)


def compare() -> tuple[int, int, int]:
    """Return how many objects copies name, how many of these are missing, and how many others there are.

    Raises BucketAway.
    """
    known = set(BucketObject.objects.values_list("pk", flat=True))
    named = set(BucketObject.objects.filter(state__in=NAMED).values_list("pk", flat=True))
    listed = _send(WRITE_SECONDS, _keys)
    # Other processes may have written and deleted objects meanwhile.
    missing = sum(
        BucketObject.objects.filter(pk__in=some, state__in=NAMED).count()
        for some in in_slices(list(named - listed))
    )
    others = len(listed - known) - sum(
        BucketObject.objects.filter(pk__in=some).count() for some in in_slices(list(listed - known))
    )
    return len(named), missing, others


def _keys(store: "S3Store") -> set[str]:
    return {one["path"].rpartition("/")[2] for page in store.list() for one in page}
