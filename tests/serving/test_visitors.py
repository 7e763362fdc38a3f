"""Visitors use some of the threads only, so that nobody else waits for them."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.conf import settings
from django.test import RequestFactory
from django.urls import get_resolver

from checkpoint_site.asgi import MAX_WAITING_VISITORS, SHARED, Visitor, visitor_of
from tests.lineage.generated_runs import generated_run
from tests.serving.conftest import WebServer
from tests.serving.test_connections import sent
from tests.serving.test_web_server import session_cookie
from tests.sharing.conftest import BROWSER, share

VIEWS = 100


def test_nobody_else_waits_for_the_visitors_of_a_share_link(own_server: WebServer) -> None:
    run = generated_run(50)
    link, cookie = share("run", str(run.uid)), session_cookie(own_server.port)
    own_server.get(run.get_absolute_url(), Cookie=cookie).read()

    def view(_: int) -> tuple[int, float]:
        status = own_server.get(link, **{"User-Agent": BROWSER}).status
        return status, time.monotonic()

    with ThreadPoolExecutor(VIEWS) as visitors:
        views = [visitors.submit(view, number) for number in range(VIEWS)]
        next(iter(views)).result()
        answer = own_server.get(run.get_absolute_url(), Cookie=cookie)
        assert answer.status == 200 and answer.read()
        assert own_server.get("/login/").status == 200
        answered = time.monotonic()
        results = [one.result() for one in views]
    assert {status for status, _ in results} == {200}
    assert sum(at > answered for _, at in results) > VIEWS / 2


def test_too_many_visitors_are_refused_and_nobody_with_a_login_is(own_server: WebServer) -> None:
    cookie = session_cookie(own_server.port)
    request = b"GET /login/ HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with ExitStack() as clients:
        opened = [clients.enter_context(sent(own_server, request)) for _ in range(3 * MAX_WAITING_VISITORS)]
        answer = own_server.get("/jobs/", Cookie=cookie)
        starts = [client.recv(13) for client in opened]
    assert answer.status == 200
    assert set(starts) == {b"HTTP/1.1 200 ", b"HTTP/1.1 503 "}
    assert starts.count(b"HTTP/1.1 200 ") >= MAX_WAITING_VISITORS


@pytest.mark.parametrize(
    ("address", "without_session", "with_session"),
    [
        ("/shared/x/", Visitor.SHARED, Visitor.SHARED),
        ("/shared/x/rows/", Visitor.SHARED, Visitor.SHARED),
        ("/shared/x/picture.png", Visitor.SHARED, Visitor.SHARED),
        ("/login/", Visitor.STRANGER, Visitor.STRANGER),
        ("/login/link/?sesame=x", Visitor.STRANGER, Visitor.STRANGER),
        ("/jobs/", Visitor.STRANGER, None),
        ("/nowhere/", Visitor.STRANGER, Visitor.STRANGER),
        ("/static/icon.svg", Visitor.STRANGER, None),
        ("/healthz", None, None),
        ("/metrics", None, None),
    ],
)
def test_who_is_a_visitor(
    address: str, without_session: Visitor | None, with_session: Visitor | None
) -> None:
    request = RequestFactory().get(address)
    assert visitor_of(request) == without_session
    request = RequestFactory(headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}=x"}).get(address)
    assert visitor_of(request) == with_session


def test_every_route_of_share_links_has_their_budget() -> None:
    routes = {
        name for name in get_resolver().reverse_dict if isinstance(name, str) and name.startswith("shared")
    }
    assert routes == SHARED
