"""Generated requests find no server error, and no answer that the OpenAPI document does not describe."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.urls import resolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.conftest import api_addresses, with_role
from viewer.models import Checkpoint, Job, Level
from viewer.records.accounts import make_token
from viewer.web.api.interface import api

# Of each operation, valid ones and others.
EXAMPLES = 2
REMOVES = "api-command-remove"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
QUICK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _kept_connection() -> Iterator[None]:
    """Keep the connection with the rows of the test open between requests, as Django's client does."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


def test_generated_requests_get_described_answers(checkpoint: Checkpoint) -> None:
    addresses = api_addresses(checkpoint)
    _token, text = make_token(with_role("admin", Level.ADMIN), "ci", Level.ADMIN)
    schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/"))
    schema.app = WSGIHandler()
    statuses: dict[str, set[int]] = {}
    named = {
        **dict.fromkeys(("checkpoint", "a", "b"), checkpoint.target),
        **{"location": checkpoint.location.path, "job": str(Job.objects.get().pk)},
    }

    def send(name: str, case: Any, is_known: bool) -> None:
        if is_known:
            # Of objects that exist, more is checked.
            path, _mark, query = addresses[name].partition("?")
            case.path_parameters = {part: str(value) for part, value in resolve(path).kwargs.items()}
            case.query = {**(case.query or {}), **dict(parse_qsl(query))}
            # A location that is removed is missing in later requests.
            if isinstance(case.body, dict) and name.startswith("api-command-") and name != REMOVES:
                case.body |= {field: text for field, text in named.items() if field in case.body}
        headers = {"Authorization": f"Bearer {text}", "Host": "127.0.0.1:8000"}
        response = case.call(headers=headers, base_url="http://127.0.0.1:8000")
        case.validate_response(response, checks=CHECKS)
        statuses.setdefault(name, set()).add(response.status_code)

    def check(name: str, cases: Any, is_valid: bool) -> None:
        @QUICK
        @given(cases, st.just(True) if is_valid else st.booleans())
        def send_each(case: Any, is_known: bool) -> None:
            send(name, case, is_known)

        send_each()

    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        name = operation.definition.raw["operationId"]
        for mode in GenerationMode:
            cases = operation.as_strategy(generation_mode=mode)
            check(name, cases, mode == GenerationMode.POSITIVE)
    assert len(statuses) == len(addresses) - 1
    thin = {name: given for name, given in statuses.items() if not given & {200, 201, 409, 422}}
    assert not thin
