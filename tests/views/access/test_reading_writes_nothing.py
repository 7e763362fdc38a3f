"""GET requests write nothing to the database."""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.views.access.test_urls import ACCOUNT, FORMS, LOGIN, PUBLIC, READ, addresses
from viewer.models import DayLimits, Level, Location
from viewer.records.accounts import invite

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


def test_get_requests_write_nothing(runner: Client, addresses: dict[str, str], location: Location) -> None:
    # tests/serving/test_metrics.py counts the queries of the metrics, which need a token.
    names = (READ | FORMS | PUBLIC | LOGIN) - ACCOUNT - {"logout", "metrics"}
    _invitation, token = invite(None, level=Level.VIEWER, location=location)
    addresses |= {"invitation": reverse("invitation", args=[token]), "login": "/login/", "health": "/healthz"}
    addresses["login-link"] = "/login/link/?sesame=x"
    for name in sorted(names):
        with connection.execute_wrapper(refuse_writes):
            assert runner.get(addresses[name]).status_code in {200, 204, 302}, name


def test_daily_limits_are_created_with_their_first_change(db: None) -> None:
    assert DayLimits.current() == {} and not DayLimits.objects.exists()
    DayLimits.change({"tokens": 5})
    DayLimits.change({"tokens": 6})
    assert DayLimits.objects.get().limits == DayLimits.current() == {"tokens": 6}
