"""The same start, sent to two web servers at the same time, starts once."""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.conftest import with_role
from tests.jobs.conftest import StartWorker
from tests.serving.conftest import WebServer, started_server
from viewer.models import ApiToken, Checkpoint, IdempotencyKey, Job, Level, Sweep
from viewer.records.accounts import make_token

pytestmark = pytest.mark.postgresql

SENDERS = 6


@pytest.fixture
def servers(own_server: WebServer) -> Iterator[list[WebServer]]:
    """Return two web servers with one database."""
    with started_server() as second:
        yield [own_server, second]


@pytest.fixture
def token(checkpoint: Checkpoint) -> str:
    return make_token(with_role("olga", Level.OPERATOR), "ci", Level.OPERATOR)[1]


def sent(server: WebServer, token: str, command: str, body: dict[str, Any], key: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    headers = {
        "Host": f"127.0.0.1:{server.port}",
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    connection.request("POST", f"/api/commands/{command}", json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_each_command_starts_once(
    servers: list[WebServer], token: str, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    # A host of PostgreSQL has a worker.
    start_worker("succeeds.py")
    target, path = checkpoint.target, checkpoint.location.path
    starts: dict[str, tuple[dict[str, Any], int]] = {
        "fork": ({"checkpoint": target, "input": ["topic=tea"]}, 1),
        "resume": ({"checkpoint": target}, 1),
        "run": ({"location": path, "input": ["topic=tea"], "kind": "crew"}, 1),
        "score": ({"checkpoint": target, "function": "crew:build"}, 1),
        "sweep": ({"checkpoint": target, "vary": ['topic=["tea", "milk"]']}, 2),
        "bulk": ({"what": "fork", "checkpoints": [target], "input": ["topic=milk"]}, 1),
    }
    for command, (body, count) in starts.items():
        before, groups = Job.objects.count(), Sweep.objects.count()
        with ThreadPoolExecutor(SENDERS) as threads:
            calls = [
                threads.submit(sent, servers[number % 2], token, command, body, command)
                for number in range(SENDERS)
            ]
            answers = [call.result() for call in calls]
        assert {status for status, _found in answers} <= {200, 201}, (command, answers)
        name = "group" if count > 1 or command == "bulk" else "job"
        assert len({found[name] for _status, found in answers}) == 1, (command, answers)
        assert Job.objects.count() - before == count, command
        assert Sweep.objects.count() - groups == (name == "group")
    assert IdempotencyKey.objects.count() == len(starts)
    # With another body, command or token.
    body, _count = starts["fork"]
    before = Job.objects.count()
    assert sent(servers[0], token, "fork", {**body, "branch": "x"}, "fork")[0] == 422
    assert sent(servers[1], token, "resume", body, "fork")[0] == 422
    olga = ApiToken.objects.get().user
    _token, other = make_token(olga, "other", Level.OPERATOR)
    assert sent(servers[1], other, "fork", body, "fork")[0] == 200
    _token, viewer = make_token(olga, "viewer", Level.VIEWER)
    assert sent(servers[1], viewer, "fork", body, "fork")[0] == 403
    assert Job.objects.count() == before
