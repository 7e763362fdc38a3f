"""Failed logins are limited by address and account. Links that work are never refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from limits.storage import MemoryStorage
from pytest_django import Settings

from checkpoint_site.middleware import throttle
from checkpoint_site.middleware.throttle import BUDGETS, AttemptKey, RowStorage, Throttle, network_of
from viewer.models import AttemptCount
from viewer.records.accounts import login_link, teammate

HERE, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Throttle:
    """Return new counts for each test."""
    fresh = Throttle(MemoryStorage())
    monkeypatch.setattr(throttle, "throttle", fresh)
    return fresh


def let_pass(counted: Throttle, seconds: float) -> None:
    """Let the windows end as if this time had passed."""
    assert isinstance(counted.storage, MemoryStorage)
    expirations: dict[str, float] = counted.storage.expirations
    for key in list(expirations):
        expirations[key] -= seconds


@pytest.fixture
def ada(db: None) -> Iterator[User]:
    yield User.objects.create_user("ada", password="reading")


def by_password(password: str, address: str = HERE, name: str = "ada") -> tuple[int, str]:
    """Return the status of the response and the seconds to wait."""
    sent = {"username": name, "password": password}
    answer = Client(REMOTE_ADDR=address).post(reverse("login"), sent)
    return answer.status_code, answer.get("Retry-After", "")


def by_link(link: str, address: str = HERE) -> int:
    return Client(REMOTE_ADDR=address).post(link).status_code


def test_an_address_may_fail_ten_times_in_two_minutes(ada: User, counted: Throttle) -> None:
    assert [by_password("wrong") for _ in range(10)] == [(200, "")] * 10
    status, seconds = by_password("reading")
    assert status == 429 and 110 < int(seconds) <= 120
    let_pass(counted, 110)
    status, seconds = by_password("reading")
    # The test itself takes some of them.
    assert status == 429 and 1 <= int(seconds) <= 10
    let_pass(counted, 11)
    # Successful logins are not counted.
    assert [by_password("reading") for _ in range(12)] == [(302, "")] * 12


def test_the_page_says_how_long_to_wait(ada: User) -> None:
    for _ in range(10):
        by_password("wrong")
    answer = Client(REMOTE_ADDR=HERE).post(reverse("login"), {"username": "ada", "password": "reading"})
    page = answer.content.decode()
    assert f"Too many failed logins. Try again in {answer['Retry-After']} seconds." in page
    assert "do not belong together" not in page
    assert 'name="username"' in page


def test_guesses_for_one_account_from_many_addresses_are_limited(ada: User, counted: Throttle) -> None:
    answers = [
        by_password("wrong", f"198.51.100.{number}", name=" ADA"[number % 2 :]) for number in range(40)
    ]
    # Only checked attempts could have succeeded.
    assert [status for status, _ in answers].count(200) == 20
    assert by_password("reading")[0] == 429
    assert by_password("wrong", name="otto") == (200, "")
    let_pass(counted, BUDGETS["account"].get_expiry())
    assert by_password("reading") == (302, "")


def test_all_ways_to_write_a_name_count_for_one_account(ada: User) -> None:
    full_width = {ord(letter): ord(letter) + 0xFEE0 for letter in "adAD"}
    names = [one.translate(full_width) if wide else one for one in ("ada", "ADA", "Ada") for wide in (0, 1)]
    assert by_password("reading", name=names[1]) == (302, "")
    answers = [
        by_password("wrong", f"198.51.100.{number}", name=names[number % len(names)]) for number in range(40)
    ]
    assert [status for status, _ in answers].count(200) == 20


def test_a_login_link_works_whatever_else_failed(ada: User) -> None:
    link = login_link(ada)
    forged = link.replace("sesame=", "sesame=A")
    for number in range(40):
        by_password("wrong")
        by_password("wrong", f"198.51.100.{number}")
        by_link(forged)
    assert by_password("reading")[0] == by_link(forged) == 429
    assert Client(REMOTE_ADDR=HERE).get(link).status_code == 200
    assert by_link(link) == 302


@pytest.mark.parametrize("method", ["get", "post"])
def test_forged_login_links_are_limited(ada: User, method: str) -> None:
    forged = login_link(ada).replace("sesame=", "sesame=A")
    answers = [getattr(Client(REMOTE_ADDR=HERE), method)(forged) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [403] * 10 + [429] * 2


def test_an_ipv6_network_counts_as_one_address(ada: User) -> None:
    for number in range(10):
        by_password("wrong", f"2001:db8::{number}", name=f"nobody-{number}")
    assert by_password("reading", "2001:db8::ffff")[0] == 429
    assert by_password("reading", "2001:db8:0:1::1")[0] == 302


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        # As some proxies write them.
        ("192.0.2.1:4711", "192.0.2.1"),
        ("[2001:db8::1]:443", "2001:db8::/64"),
        ('"[2001:db8::1]"', "2001:db8::/64"),
        (" 2001:db8::1 ", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        # Not one network for all of IPv4.
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ("", "unknown"),
        ("unknown", "unknown"),
        ("192.0.2.1.evil.example", "unknown"),
    ],
)
def test_an_address_is_read_as_proxies_write_it(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize("site", ["https://forkline.example.org", "http://forkline.lan"])
def test_forwarded_addresses_are_used_only_behind_a_proxy(ada: User, settings: Settings, site: str) -> None:
    def sent(forwarded: str) -> int:
        host = settings.ALLOWED_ORIGINS[0].partition("://")[2]
        client = Client(
            REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": forwarded, "Host": host, "Origin": site}
        )
        return client.post(reverse("login"), {"username": forwarded, "password": "x"}).status_code

    own = settings.ALLOWED_ORIGINS
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, site.partition("://")[2]]
    settings.ALLOWED_ORIGINS = [site]
    # Entries that a browser sends itself are not trusted.
    assert [sent(f"203.0.113.{number}, {ELSEWHERE}") for number in range(11)] == [200] * 10 + [429]
    assert sent(f"{ELSEWHERE}, {HERE}") == 200
    settings.ALLOWED_ORIGINS = own
    assert [sent(f"203.0.113.{number}") for number in range(11)] == [200] * 10 + [429]


def test_simultaneous_attempts_are_limited(transactional_db: None) -> None:
    User.objects.create_user("ada", password="reading")

    def guess(_: int) -> int:
        status, _seconds = by_password("wrong")
        connection.close()
        return status

    with ThreadPoolExecutor(16) as people:
        assert list(people.map(guess, range(100))).count(200) == 10


def test_counts_are_dropped_when_their_window_ends(counted: Throttle) -> None:
    storage = counted.storage
    assert isinstance(storage, MemoryStorage)
    for number in range(1000):
        counted.use_attempt([throttle.AttemptKey("account", str(number))])
    let_pass(counted, BUDGETS["account"].get_expiry())
    counted.use_attempt([throttle.AttemptKey("account", "ada")])
    storage.timer.join()
    assert len(storage.storage) == 1


def test_several_web_servers_count_together(transactional_db: None) -> None:
    keys = [AttemptKey("address", HERE), AttemptKey("account", "ada")]
    servers = [Throttle(RowStorage()) for _ in range(3)]

    def guess(number: int) -> int:
        wait = servers[number % 3].use_attempt(keys)
        connection.close()
        return wait

    with ThreadPoolExecutor(6) as people:
        assert list(people.map(guess, range(30))).count(0) == 10
    assert 110 < servers[0].use_attempt(keys) <= 120
    # One that was right, and another address, are counted as in memory.
    servers[1].refund(keys)
    assert servers[2].use_attempt(keys) == 0 and servers[0].use_attempt(keys)
    assert servers[0].use_attempt([AttemptKey("address", ELSEWHERE)]) == 0
    AttemptCount.objects.update(ends_at=Now() - timedelta(seconds=1))
    assert servers[1].use_attempt(keys) == 0
    # What is over is deleted, and no row names anybody.
    names = "".join(AttemptCount.objects.values_list("key", flat=True))
    assert AttemptCount.objects.count() == 2 and HERE not in names and "ada" not in names


def test_opening_the_login_page_is_not_counted(db: None) -> None:
    teammate("reader")
    statuses = {Client(REMOTE_ADDR=HERE).get(reverse("login")).status_code for _ in range(50)}
    assert statuses == {HTTPStatus.OK}
