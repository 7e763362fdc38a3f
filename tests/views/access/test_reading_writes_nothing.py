"""GET requests write nothing to the database."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.views.access.test_urls import FORMS, LOGIN, PUBLIC, READ, addresses
from viewer.models import DayLimits

__all__ = ["addresses"]

# Its preflight check is stored for the next page.
PREFLIGHT = "viewer_look"
WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER")


class Written(AssertionError):
    """A writing statement was about to be executed."""


def refuse_writes(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    if sql.lstrip().upper().startswith(WRITING) and f'"{PREFLIGHT}"' not in sql:
        raise Written(sql[:200])
    return execute(sql, *rest)


# tests/serving/test_metrics.py counts the queries of the metrics, which need a token.
@pytest.mark.parametrize("name", sorted((READ | FORMS | PUBLIC | LOGIN) - {"logout", "metrics"}))
def test_a_get_request_writes_nothing(runner: Client, addresses: dict[str, str], name: str) -> None:
    address = (
        addresses.get(name)
        or {"login": "/login/", "health": "/healthz", "login-link": "/login/link/?sesame=x"}[name]
    )
    with connection.execute_wrapper(refuse_writes):
        assert runner.get(address).status_code in {200, 204, 302}


def test_daily_limits_are_created_with_their_first_change(db: None) -> None:
    assert DayLimits.current() == {} and not DayLimits.objects.exists()
    DayLimits.change({"tokens": 5})
    DayLimits.change({"tokens": 6})
    assert DayLimits.objects.get().limits == DayLimits.current() == {"tokens": 6}
