from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.bucket.servers import Bucket, Proxy
from viewer.records import bucket as records_bucket


@pytest.fixture(scope="session")
def server() -> Iterator[Bucket]:
    server = Bucket()
    yield server
    server.end()


@pytest.fixture
def bucket(server: Bucket, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The bucket that the settings name, empty."""
    client = server.client()
    for key in server.objects():
        client.delete_object(Bucket="copies", Key=key)
    use(server, settings, monkeypatch)
    yield server
    forget()


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy through which the bucket is used."""
    proxy = Proxy(bucket.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    forget()
    yield proxy
    proxy.end()


def use(server: Bucket, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the bucket of a server."""
    settings.BUCKET_URL, settings.BUCKET_MIN_BYTES = "s3://copies/forkline", 1
    for name, value in server.variables().items():
        monkeypatch.setenv(name, value)
    forget()


def forget() -> None:
    """Forget what this process knows of the bucket, as after a restart."""
    records_bucket._store.cache_clear()
    records_bucket._Backoff.paused_until = records_bucket._Backoff.move_at = 0.0
