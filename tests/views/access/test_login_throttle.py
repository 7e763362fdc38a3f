"""Failed logins are limited by address and account, without locking other users out for long."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from checkpoint_site.middleware import throttle
from checkpoint_site.middleware.throttle import BUDGETS, MAX_KEYS, AttemptKey, Throttle
from viewer.access.login_links import login_link, teammate

HERE, ELSEWHERE = "192.0.2.1", "198.51.100.7"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throttle, "throttle", Throttle(clock))
    return clock


@pytest.fixture
def ada(db: None) -> Iterator[User]:
    yield User.objects.create_user("ada", password="reading")


def by_password(password: str, address: str = HERE, name: str = "ada") -> tuple[int, str]:
    """Return the status of the response and the seconds to wait."""
    sent = {"username": name, "password": password}
    answer = Client(REMOTE_ADDR=address).post(reverse("login"), sent)
    return answer.status_code, answer.get("Retry-After", "")


def by_link(link: str, address: str = HERE) -> int:
    return Client(REMOTE_ADDR=address).get(link).status_code


def test_an_address_may_fail_ten_times_and_then_once_per_fifteen_seconds(ada: User, clock: Clock) -> None:
    assert [by_password("wrong") for _ in range(10)] == [(200, "")] * 10
    assert by_password("reading") == (429, "15")
    assert by_link(login_link(ada)) == 429
    clock.now += 14
    assert by_password("reading") == (429, "1")
    clock.now += 1
    assert by_password("reading") == (302, "")
    # Successful logins are not counted.
    assert by_password("reading") == (302, "")


def test_the_page_says_how_long_to_wait(ada: User) -> None:
    for _ in range(10):
        by_password("wrong")
    answer = Client(REMOTE_ADDR=HERE).post(reverse("login"), {"username": "ada", "password": "reading"})
    page = answer.content.decode()
    assert "Too many failed logins. Try again in 15 seconds." in page
    assert "do not belong together" not in page
    assert 'name="username"' in page


def test_guesses_for_one_account_from_many_addresses_are_limited(ada: User, clock: Clock) -> None:
    answers = [
        by_password("wrong", f"198.51.100.{number}", name=" ADA"[number % 2 :]) for number in range(40)
    ]
    # Only checked attempts could have succeeded.
    assert [status for status, _ in answers].count(200) == 20
    assert by_password("reading")[0] == 429
    assert by_password("wrong", name="otto") == (200, "")
    clock.now += BUDGETS["account"].seconds
    assert by_password("reading") == (302, "")


def test_a_login_link_works_despite_failures_from_other_addresses(ada: User, clock: Clock) -> None:
    link = login_link(ada)
    forged = link.replace("sesame=", "sesame=A")
    for number in range(100):
        by_password("wrong", f"198.51.100.{number}")
        by_link(forged, ELSEWHERE)
    assert by_link(forged, ELSEWHERE) == 429
    assert by_link(link, HERE) == 302


def test_a_login_link_works_soon_after_failures_from_its_own_address(ada: User, clock: Clock) -> None:
    link = login_link(ada)
    for _ in range(100):
        by_link(link.replace("sesame=", "sesame=A"))
    assert by_link(link) == 429
    clock.now += BUDGETS["address"].seconds
    assert by_link(link) == 302


def test_forged_login_links_are_limited(ada: User) -> None:
    forged = login_link(ada).replace("sesame=", "sesame=A")
    assert [by_link(forged) for _ in range(12)] == [403] * 10 + [429] * 2


def test_an_ipv6_network_counts_as_one_address(ada: User) -> None:
    for number in range(10):
        by_password("wrong", f"2001:db8::{number}", name=f"nobody-{number}")
    assert by_password("reading", "2001:db8::ffff")[0] == 429
    assert by_password("reading", "2001:db8:0:1::1")[0] == 302


def test_forwarded_addresses_are_used_only_behind_a_proxy(ada: User, settings: Settings) -> None:
    def sent(forwarded: str) -> int:
        client = Client(REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": forwarded})
        return client.post(reverse("login"), {"username": "nobody", "password": "x"}).status_code

    settings.IS_BEHIND_TLS = True
    # Entries that a browser sends itself are not trusted.
    assert [sent(f"203.0.113.{number}, {ELSEWHERE}") for number in range(11)] == [200] * 10 + [429]
    assert sent(f"{ELSEWHERE}, {HERE}") == 200
    settings.IS_BEHIND_TLS = False
    throttle.throttle.used.clear()
    assert [sent(f"203.0.113.{number}") for number in range(11)] == [200] * 10 + [429]


def test_simultaneous_attempts_are_limited(transactional_db: None) -> None:
    User.objects.create_user("ada", password="reading")

    def guess(_: int) -> int:
        status, _seconds = by_password("wrong")
        connection.close()
        return status

    with ThreadPoolExecutor(16) as people:
        assert list(people.map(guess, range(100))).count(200) == 10


def test_the_number_of_stored_keys_is_bounded(clock: Clock) -> None:
    one = Throttle(clock)
    guessed = [AttemptKey("account", "ada")]
    for _ in range(20):
        one.use_attempt(guessed)
    for number in range(2 * MAX_KEYS):
        one.use_attempt([AttemptKey("account", str(number))])
    assert len(one.used) <= MAX_KEYS
    assert one.use_attempt(guessed) > 0


def test_opening_the_login_page_is_not_counted(db: None) -> None:
    teammate("reader")
    assert [Client(REMOTE_ADDR=HERE).get(reverse("login")).status_code for _ in range(50)] == [200] * 50
