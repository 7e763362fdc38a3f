"""Accounts: passwords with a second factor, and sessions that end."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from allauth.usersessions.models import UserSession
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.core.cache import cache, caches
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from limits.storage import MemoryStorage

from checkpoint_site.middleware import throttle
from checkpoint_site.middleware.throttle import Throttle
from tests.views.access.test_urls import ACCOUNT, ALL, ENTRANCES
from viewer.models import AttemptCount, AuditEntry, Level, Location
from viewer.records.accounts import login_link
from viewer.records.permissions import give

PASSWORD = "green tea, twice"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Throttle:
    """Return new counts for each test."""
    fresh = Throttle(MemoryStorage())
    monkeypatch.setattr(throttle, "throttle", fresh)
    cache.clear()
    return fresh


@pytest.fixture
def ada(location: Location) -> User:
    user = User.objects.create_user("ada", password=PASSWORD)
    give(user, Level.VIEWER, location)
    return user


@pytest.fixture
def secret(ada: User) -> str:
    """Return the secret of Ada's authenticator app."""
    found: str = generate_totp_secret()
    TOTP.activate(ada, found)
    return found


def code_of(secret: str) -> str:
    """Return what an authenticator app shows now."""
    code: str = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    return code


def by_password(client: Client, **form: str) -> Any:
    return client.post(reverse("login"), {"username": "ada", "password": PASSWORD} | form)


def by_code(client: Client, code: str) -> Any:
    return client.post(reverse("mfa_authenticate"), {"code": code})


def is_logged_in(client: Client) -> bool:
    return int(client.get(reverse("jobs")).status_code) == 200


def logged_in() -> Client:
    client = Client(headers={"User-Agent": "Firefox"})
    assert by_password(client).status_code == 302 and is_logged_in(client)
    return client


def confirmed(client: Client) -> None:
    """Enter the password, as before any change of how one logs in."""
    assert client.post(reverse("account_reauthenticate"), {"password": PASSWORD}).status_code == 302


def test_the_hints_for_a_new_password_are_read_with_its_field(secret: str) -> None:
    client = Client()
    by_password(client)
    by_code(client, code_of(secret))
    confirmed(client)
    page = client.get(reverse("account_change_password")).content.decode()
    described = re.findall(r'aria-describedby="([^"]+)"', page)
    assert described and all(f'id="{one}"' in page for one in described)


def test_a_password_alone_does_not_log_in_who_has_a_second_factor(secret: str) -> None:
    client = Client()
    assert by_password(client, next="/jobs/")["Location"] == reverse("mfa_authenticate")
    assert not is_logged_in(client) and not UserSession.objects.exists()
    page = client.get(reverse("mfa_authenticate"))
    assert page.status_code == 200 and 'name="code"' in page.content.decode()
    code = code_of(secret)
    assert by_code(client, code)["Location"] == "/jobs/"
    assert is_logged_in(client)
    # A code that somebody has seen works once.
    other = Client()
    by_password(other)
    assert by_code(other, code).status_code == 200 and not is_logged_in(other)


def test_a_code_works_once_for_all_web_servers(secret: str) -> None:
    code = code_of(secret)
    first, second = Client(), Client()
    by_password(first)
    by_password(second)
    assert by_code(first, code).status_code == 302
    # Another web server, or this one after a restart, has nothing of it in its memory.
    LocMemCache.clear(cast(LocMemCache, caches["default"]))
    assert by_code(second, code).status_code == 200 and not is_logged_in(second)
    assert code not in str(list(AttemptCount.objects.values()))


@pytest.mark.django_db(transaction=True)
def test_of_simultaneous_uses_of_a_code_one_works(ada: User) -> None:
    factor = TOTP.activate(ada, generate_totp_secret())
    gate = threading.Barrier(6)

    def use(_number: int) -> bool:
        gate.wait()
        try:
            return bool(factor._mark_code_used("123456"))
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        assert sorted(threads.map(use, range(6))) == [False] * 5 + [True]
    AttemptCount.objects.update(ends_at=timezone.now() - timedelta(seconds=1))
    assert factor._mark_code_used("123456")


def test_the_second_factor_is_asked_for_only_after_the_password(secret: str) -> None:
    client = Client()
    assert client.get(reverse("mfa_authenticate"))["Location"] == reverse("login")
    assert by_code(client, code_of(secret))["Location"] == reverse("login")
    assert by_password(client, password="wrong").status_code == 200
    assert by_code(client, code_of(secret))["Location"] == reverse("login")
    assert not is_logged_in(client)


def test_guessed_codes_are_limited_by_account_in_new_sessions_too(secret: str) -> None:
    statuses = []
    for guess in range(21):
        client = Client(REMOTE_ADDR=f"192.0.2.{guess}")
        by_password(client)
        # A name in the form makes no difference.
        statuses.append(
            client.post(reverse("mfa_authenticate"), {"code": "000000", "username": str(guess)}).status_code
        )
    assert statuses == [200] * 20 + [429]
    # A pending login of one's own does not hide guesses at the passwords of others.
    for guess in range(21):
        client.cookies.clear()
        client = Client(REMOTE_ADDR=f"198.51.100.{guess}")
        by_password(client)
        last = client.post(reverse("login"), {"username": "otto", "password": "guess"}).status_code
    assert last == 429


def test_a_recovery_code_logs_in_once(ada: User, secret: str) -> None:
    code = RecoveryCodes.activate(ada).get_unused_codes()[0]
    first, second = Client(), Client()
    by_password(first)
    assert by_code(first, code).status_code == 302 and is_logged_in(first)
    by_password(second)
    assert by_code(second, code).status_code == 200 and not is_logged_in(second)


def test_secrets_of_second_factors_are_encrypted(ada: User, secret: str, settings: LazySettings) -> None:
    RecoveryCodes.activate(ada)
    assert secret not in str(list(Authenticator.objects.values_list("data", flat=True)))
    settings.SECRET_KEY = "another"
    client = Client()
    by_password(client)
    # No code is right, not even one computed from an empty secret.
    for code in (code_of(secret), format_hotp_value(hotp_value("", int(time.time()) // 30))):
        assert by_code(client, code).status_code == 200
    assert not is_logged_in(client)


def test_an_authenticator_app_is_added_after_the_password_is_confirmed(
    ada: User, settings: LazySettings, django_capture_on_commit_callbacks: Any
) -> None:
    settings.AUDIT = True
    client, address = logged_in(), reverse("mfa_activate_totp")
    assert client.get(address)["Location"].startswith(reverse("account_reauthenticate"))
    assert client.post(reverse("account_reauthenticate"), {"password": "wrong"}).status_code == 200
    confirmed(client)
    page = client.get(address)
    assert "data:" in page["Content-Security-Policy"]
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(address, {"code": code_of(client.session["mfa.totp.secret"])})
    assert answer["Location"] == reverse("mfa_view_recovery_codes")
    assert "readonly" in client.get(answer["Location"]).content.decode()
    assert Authenticator.objects.filter(user=ada).count() == 2
    assert "ada: totp" in AuditEntry.objects.values_list("detail", flat=True)


def test_pages_of_second_factors_are_shown(ada: User) -> None:
    client = logged_in()
    confirmed(client)
    for name in ("account", "mfa_index", "mfa_list_webauthn", "mfa_add_webauthn", "account_change_password"):
        page = client.get(reverse(name))
        assert page.status_code == 200 and b'class="page-head"' in page.content, name
        assert "unsafe" not in page["Content-Security-Policy"]


def test_a_new_password_ends_all_other_sessions(ada: User, settings: LazySettings) -> None:
    settings.AUDIT = True
    client, other = logged_in(), logged_in()
    form = {"oldpassword": PASSWORD, "password1": "black tea, once", "password2": "black tea, once"}
    for refused in (
        {"oldpassword": "wrong"},
        {"password2": "x"},
        {"password1": "short", "password2": "short"},
    ):
        assert client.post(reverse("account_change_password"), form | refused).status_code == 200
    assert client.post(reverse("account_change_password"), form).status_code == 302
    assert is_logged_in(client) and not is_logged_in(other)
    assert "ada: password" in AuditEntry.objects.values_list("detail", flat=True)
    assert by_password(Client()).status_code == 200


def test_who_has_only_a_link_sets_a_password(location: Location) -> None:
    eve = User.objects.create_user("eve")
    client = Client()
    client.post(login_link(eve))
    assert client.get(reverse("account_change_password"))["Location"] == reverse("account_set_password")
    form = {"password1": PASSWORD, "password2": PASSWORD}
    assert client.post(reverse("account_set_password"), form).status_code == 302
    assert is_logged_in(client) and Client().login(username="eve", password=PASSWORD)


def test_a_person_lists_and_ends_their_sessions(ada: User) -> None:
    clients = [logged_in() for _ in range(3)]
    otto = UserSession.objects.create(
        user=User.objects.create_user("otto"), ip="192.0.2.9", session_key="otto"
    )
    page = clients[0].get(reverse("account")).content.decode()
    assert page.count("Firefox") == 3 and "192.0.2.9" not in page
    second = UserSession.objects.get(session_key=clients[1].session.session_key)
    end = reverse("session-end")
    for unknown in (otto.pk, 987654321, "x", "9" * 30):
        assert clients[0].post(end, {"session": unknown}).status_code == 404
    assert clients[0].post(end, {"session": second.pk}).status_code == 302
    assert [is_logged_in(client) for client in clients] == [True, False, True]
    assert clients[0].post(end).status_code == 302
    assert [is_logged_in(client) for client in clients] == [True, False, False]
    assert UserSession.objects.filter(user__username="otto").exists()


def test_an_admin_of_all_locations_ends_the_sessions_of_everybody(
    ada: User, location: Location, settings: LazySettings
) -> None:
    settings.AUDIT = True
    clients = [logged_in() for _ in range(2)]
    # One from before sessions were listed.
    UserSession.objects.filter(session_key=clients[0].session.session_key).delete()
    admin, limited = User.objects.create_superuser("owner"), User.objects.create_user("eve")
    give(limited, Level.ADMIN, location)
    address = reverse("sessions-end", args=[ada.pk])
    for person, status in ((limited, 404), (ada, 403), (admin, 302)):
        client = Client()
        client.force_login(person)
        assert client.post(address).status_code == status
    assert [is_logged_in(client) for client in clients] == [False, False] and is_logged_in(client)
    assert "ada: ended 3 sessions" in AuditEntry.objects.values_list("detail", flat=True)


def test_a_login_redirects_to_no_other_host(secret: str) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example/", "http://testserver:9999/", "javascript:x"):
        client = Client()
        by_password(client, next=elsewhere)
        assert by_code(client, code_of(secret))["Location"] == reverse("home")
        AttemptCount.objects.all().delete()
        client.post(reverse("account_reauthenticate"), {"password": PASSWORD, "next": elsewhere})
        answer = client.post(reverse("account_reauthenticate"), {"password": PASSWORD, "next": elsewhere})
        assert answer["Location"] == reverse("home"), elsewhere


def test_nothing_says_whether_an_account_exists(ada: User, secret: str) -> None:
    pages = []
    for name in ("ada", "nobody"):
        page = Client().post(reverse("login"), {"username": name, "password": "wrong"}).content.decode()
        pages.append(page.replace(name, ""))
    assert len(pages[0]) == len(pages[1]) and "Wrong name or password" in pages[0]


def test_pages_of_the_account_need_a_login() -> None:
    for name in ACCOUNT - ENTRANCES:
        arguments = dict.fromkeys(ALL[name].pattern.converters, 1)
        for method in ("get", "post"):
            answer = getattr(Client(), method)(reverse(name, kwargs=arguments))
            assert answer.status_code == 302 and answer["Location"].startswith(reverse("login")), name


def test_one_person_sees_nothing_of_accounts(location: Location) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("owner"))
    assert reverse("account") not in client.get(reverse("settings")).content.decode()
    User.objects.create_user("ada")
    assert reverse("account") in client.get(reverse("settings")).content.decode()
