"""Who has forgotten a password or lost a second factor: help by mail, by an admin and at the terminal."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils.translation import override
from limits.storage import MemoryStorage

from checkpoint_site.logs import without_tokens
from checkpoint_site.middleware import throttle
from checkpoint_site.middleware.throttle import Throttle
from viewer.models import AuditEntry, Level, Location, ReaderSettings
from viewer.records import accounts
from viewer.records.accounts import mail_token, make_token, person_of, reset_path, send_waiting
from viewer.records.permissions import give

PASSWORD = "green tea, twice"
OTHER = "black tea, once a day"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "throttle", Throttle(MemoryStorage()))


@pytest.fixture
def ada(location: Location) -> User:
    user = User.objects.create_user("ada", "ada@example.org", PASSWORD)
    give(user, Level.VIEWER, location)
    return user


@pytest.fixture
def admin(location: Location) -> User:
    user = User.objects.create_user("eve", password=PASSWORD)
    give(user, Level.ADMIN)
    return user


def browser_of(name: str) -> Client:
    client = Client()
    client.post(reverse("login"), {"username": name, "password": PASSWORD})
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    return client


def ask(name: str, **more: Any) -> Any:
    return Client(**more).post(reverse("password-forgotten"), {"name": name})


def mailed() -> list[str]:
    """The texts of all mail."""
    send_waiting()
    return [str(one.body) for one in mail.outbox]


def link_in(text: str) -> str:
    (found,) = re.findall(r"http://[^/]+(/\S+)", text)
    return str(found)


def set_password(link: str, password: str = OTHER) -> Any:
    return Client().post(link, {"new_password1": password, "new_password2": password})


def details() -> list[str]:
    return list(AuditEntry.objects.values_list("detail", flat=True))


def page_for(path: str, person: User) -> str:
    return reverse(path, args=[person.pk])


# By mail.


def test_a_link_by_mail_sets_a_new_password_once_and_ends_all_sessions(
    ada: User, settings: LazySettings
) -> None:
    settings.EMAIL_HOST, settings.AUDIT = "mail.example.org", True
    session = browser_of("ada")
    assert ask("ada@example.org").status_code == ask("ada").status_code == 200
    first, second = mailed()
    assert "ada" in first and mail.outbox[0].to == ["ada@example.org"]
    link = link_in(first)
    # A chat or a mail program that opens the link uses nothing.
    assert Client().get(link).status_code == 200 and Client().head(link).status_code == 200
    assert set_password(link, "short").status_code == 422
    answer = set_password(link)
    assert answer["Location"] == reverse("login")
    # It logs nobody in, and works no more; nor does the other one.
    assert set_password(link).status_code == set_password(link_in(second)).status_code == 403
    assert session.get(reverse("jobs")).status_code == 302
    assert Client().login(username="ada", password=OTHER)
    assert "Your password was changed." in mailed()[2]
    assert "ada: asked for a reset link" in details() and "ada: password by a reset link" in details()
    token = link.split("/")[-2]
    assert token not in str(list(AuditEntry.objects.values())) and token not in without_tokens(f"GET {link}")


def test_a_second_factor_is_still_asked_for_after_a_new_password(ada: User) -> None:
    TOTP.activate(ada, generate_totp_secret())
    assert set_password(reset_path(ada)).status_code == 302
    client = Client()
    answer = client.post(reverse("login"), {"username": "ada", "password": OTHER})
    assert answer["Location"] == reverse("mfa_authenticate") and client.get("/jobs/").status_code == 302


def test_the_page_is_the_same_whether_there_is_an_account_or_not(ada: User, settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    User.objects.create_user("provider", "provider@example.org")
    User.objects.create_user("mail-less", password=PASSWORD)
    User.objects.create_user("gone", "gone@example.org", PASSWORD, is_active=False)
    pages = set()
    for number, name in enumerate(("ada", "nobody", "provider", "mail-less", "gone", "ada@example.org%")):
        answer = ask(name, REMOTE_ADDR=f"192.0.2.{number}")
        assert answer.status_code == 200
        pages.add(re.sub(r"\w{64}", "", answer.content.decode()))
    assert len(pages) == 1 and len(mailed()) == 1
    assert ask("").status_code == 422


def test_a_slow_mail_server_delays_no_page(
    ada: User, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    was_answered = Event()
    sent_after: list[bool] = []
    monkeypatch.setattr(
        "viewer.records.accounts.send_mail", lambda *_mail: sent_after.append(was_answered.wait(60))
    )
    assert ask("ada").status_code == 200
    was_answered.set()
    send_waiting()
    assert sent_after == [True]


def test_mail_is_limited_by_what_was_typed_and_by_address(ada: User, settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    for name in ("ada", "nobody"):
        typed = [ask(one, REMOTE_ADDR=f"192.0.2.{number}") for number, one in enumerate([name] * 3)]
        refused = ask(f" {name.upper()} ", REMOTE_ADDR="198.51.100.7")
        assert [one.status_code for one in typed] == [200] * 3 and refused.status_code == 429
        assert int(refused["Retry-After"]) > 60
    assert len(mailed()) == 3
    statuses = [ask(str(number), REMOTE_ADDR="203.0.113.5").status_code for number in range(11)]
    assert statuses == [200] * 10 + [429]


def test_without_a_mail_server_the_page_says_who_can_help(ada: User) -> None:
    page = Client().get(reverse("password-forgotten")).content.decode()
    assert "sends no mail" in page and "An admin" in page and "<form" not in page.split("<h1>")[1]
    assert ask("ada").status_code == 200 and not mailed()
    assert reverse("password-forgotten") in Client().get(reverse("login")).content.decode()


def test_mail_is_in_the_language_of_its_person(ada: User, settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ReaderSettings.objects.create(user=ada, language="de")
    # The browser that opens the link may be set to another language.
    set_password(reset_path(ada))
    (text,) = mailed()
    with override("de"):
        assert str(accounts.PASSWORD) in text
    assert str(accounts.PASSWORD) not in text


def test_a_link_dies_with_a_login_a_deactivation_a_new_address_and_time(
    ada: User, settings: LazySettings
) -> None:
    def works(link: str) -> bool:
        return int(Client().get(link).status_code) == 200

    link = reset_path(ada)
    assert works(link)
    browser_of("ada")
    assert not works(link)
    ada.refresh_from_db()
    link = reset_path(ada)
    User.objects.update(is_active=False)
    assert not works(link)
    User.objects.update(is_active=True)
    assert works(link)
    User.objects.update(email="other@example.org")
    assert not works(link)
    ada.refresh_from_db()
    link = reset_path(ada)
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert not works(link)


@pytest.mark.parametrize(
    "token", ["", "1", "1-", "x" * 5000, "zzzzzzzzzzzzz-a-b", "-1-a-b", "1-a-b\x00", "é-ü"]
)
def test_a_forged_token_sets_nothing(ada: User, token: str) -> None:
    assert person_of(token) is None
    other = User.objects.create_user("otto", password=PASSWORD)
    # That of somebody else.
    mixed = reset_path(other).split("/")[-2].partition("-")[2]
    assert person_of(f"{ada.pk}-{mixed}") is None


def test_guesses_at_links_are_limited(ada: User) -> None:
    link = reverse("password-reset", args=["1-a-b"])
    assert [Client().get(link).status_code for _guess in range(11)] == [403] * 10 + [429]
    assert Client().get(reset_path(ada)).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_of_simultaneous_uses_of_a_link_one_sets_the_password(ada: User) -> None:
    link = reset_path(ada)

    def use(number: int) -> int:
        try:
            return int(set_password(link, f"{OTHER} {number}").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(use, range(4))) == [302, 403, 403, 403]


# The mail address of an account.


def test_a_mail_address_is_stored_once_its_link_is_opened(ada: User, settings: LazySettings) -> None:
    settings.EMAIL_HOST, settings.AUDIT = "mail.example.org", True
    client = Client()
    client.post(reverse("login"), {"username": "ada", "password": PASSWORD})
    address = reverse("account-mail")
    # The password is asked for again.
    assert client.get(address)["Location"].startswith(reverse("account_reauthenticate"))
    assert client.post(address, {"address": "new@example.org"})["Location"].startswith("/account/confirm")
    client = browser_of("ada")
    assert client.post(address, {"address": "no address"}).status_code == 422
    assert client.post(address, {"address": "new@example.org"}).status_code == 302
    (text,) = mailed()
    link = link_in(text)
    assert mail.outbox[0].to == ["new@example.org"] and User.objects.get(pk=ada.pk).email == "ada@example.org"
    assert client.get(link).status_code == 200 and User.objects.get(pk=ada.pk).email == "ada@example.org"
    assert Client().post(link)["Location"].startswith(reverse("login"))
    assert client.post(link).status_code == 302
    assert User.objects.get(pk=ada.pk).email == "new@example.org"
    # The former address is notified, and the link stores nothing again.
    assert "Another mail address" in mailed()[1] and mail.outbox[1].to == ["ada@example.org"]
    assert client.post(link).status_code == 403 and "ada: mail address" in details()
    assert "example" not in " ".join(details())


def test_the_link_of_an_address_is_for_one_account(ada: User, admin: User) -> None:
    link = reverse("account-mail-confirm", args=[mail_token(ada, "evil@example.org")])
    assert browser_of("eve").post(link).status_code == 403
    assert User.objects.get(pk=admin.pk).email == ""


# By an admin.


def test_an_admin_makes_a_link_for_a_new_password(ada: User, admin: User, settings: LazySettings) -> None:
    settings.AUDIT = True
    page = browser_of("eve").post(page_for("person-reset-link", ada)).content.decode()
    (link,) = re.findall(r"http://testserver(/password/new/[^<\s]+)", page)
    assert set_password(link).status_code == 302 and set_password(link).status_code == 403
    assert "ada: reset link" in details()
    assert AuditEntry.objects.get(detail="ada: reset link").actor == "eve"
    # Also for somebody who had no password.
    otto = User.objects.create_user("otto")
    page = browser_of("eve").post(page_for("person-reset-link", otto)).content.decode()
    assert set_password(re.findall(r"http://testserver(/password/new/[^<\s]+)", page)[0]).status_code == 302


def test_an_admin_removes_lost_second_factors_for_a_reason(
    ada: User, admin: User, settings: LazySettings
) -> None:
    settings.AUDIT, settings.EMAIL_HOST = True, "mail.example.org"
    session = browser_of("ada")
    TOTP.activate(ada, generate_totp_secret())
    RecoveryCodes.activate(ada)
    client, address = browser_of("eve"), page_for("person-factors-remove", ada)
    for reason in ("", "because I want to"):
        refused = client.post(address, {"reason": reason})
        assert refused.status_code == 422 and "Choose a reason." in refused.content.decode()
        assert Authenticator.objects.filter(user=ada).count() == 2
    client.post(address, {"reason": "lost"})
    assert not Authenticator.objects.filter(user=ada).exists()
    assert "ada: removed 2 second factors, lost" in details()
    (text,) = mailed()
    assert "An admin removed the second factors" in text
    assert session.get(reverse("jobs")).status_code == 302
    assert Client().login(username="ada", password=PASSWORD)
    before = len(details())
    assert "ada has no second factor." in client.post(address, {"reason": "lost"}).content.decode()
    assert AuditEntry.objects.last().result == "not_done" and len(details()) == before + 1  # type: ignore[union-attr]


def test_a_deactivated_account_opens_nothing(ada: User, admin: User, settings: LazySettings) -> None:
    settings.AUDIT = True
    session = browser_of("ada")
    _token, text = make_token(ada, "ci", Level.VIEWER)
    bearer = {"Authorization": f"Bearer {text}"}
    assert Client().get("/api/locations", headers=bearer).status_code == 200
    client = browser_of("eve")
    client.post(page_for("person-active", ada))
    assert session.get(reverse("jobs")).status_code == 302
    assert not Client().login(username="ada", password=PASSWORD)
    assert Client().get("/api/locations", headers=bearer).status_code == 401
    assert "deactivated" in client.get(reverse("roles")).content.decode()
    client.post(page_for("person-active", ada), {"active": "yes"})
    assert Client().login(username="ada", password=PASSWORD)
    assert {"ada: deactivated", "ada: activated"} <= set(details())


CHANGES = ("person-reset-link", "person-factors-remove", "person-active")


def test_only_an_admin_of_all_locations_who_has_confirmed_it_helps_others(
    ada: User, admin: User, location: Location
) -> None:
    limited = User.objects.create_user("limited", password=PASSWORD)
    give(limited, Level.ADMIN, location)
    TOTP.activate(ada, generate_totp_secret())
    unconfirmed = Client()
    unconfirmed.post(reverse("login"), {"username": "eve", "password": PASSWORD})
    for name in (*CHANGES, "sessions-end"):
        address = page_for(name, ada)
        assert browser_of("limited").post(address, {"reason": "lost"}).status_code == 404
        answer = unconfirmed.post(address, {"reason": "lost"})
        assert answer["Location"].startswith(reverse("account_reauthenticate")), name
    assert unconfirmed.get(page_for("person", ada))["Location"].startswith("/account/confirm")
    assert Authenticator.objects.filter(user=ada).exists() and User.objects.get(pk=ada.pk).is_active


def test_an_admin_neither_takes_over_a_superuser_nor_skips_their_own_confirmation(admin: User) -> None:
    owner = User.objects.create_superuser("owner", password=PASSWORD)
    for person in (owner, admin):
        TOTP.activate(person, generate_totp_secret())
    browser = Client()
    browser.force_login(admin)
    browser.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    for person in (owner, admin):
        for name in CHANGES:
            browser.post(page_for(name, person), {"reason": "lost"})
        assert User.objects.get(pk=person.pk).is_active
        assert Authenticator.objects.filter(user=person).count() == 1
    assert not AuditEntry.objects.filter(result="done", action="removed").exists()


# At the terminal.


def test_the_terminal_helps_the_last_admin(location: Location, capsys: pytest.CaptureFixture[str]) -> None:
    owner = User.objects.create_superuser("owner", "owner@example.org", PASSWORD)
    TOTP.activate(owner, generate_totp_secret())
    call_command("login_link", "owner", "--new-password")
    link = link_in(capsys.readouterr().out)
    assert set_password(link).status_code == 302 and Client().login(username="owner", password=OTHER)
    call_command("checkpoints", "roles", "--person", "owner", "--remove-second-factors", "lost")
    assert not Authenticator.objects.exists()
    for state, works in (("deactivate", False), ("activate", True)):
        call_command("checkpoints", "roles", "--person", "owner", f"--{state}")
        assert Client().login(username="owner", password=OTHER) == works
    for wrong in (["--remove-second-factors", "lost"], ["--person", "nobody", "--deactivate"]):
        with pytest.raises(CommandError):
            call_command("checkpoints", "roles", *wrong)
    with pytest.raises(CommandError, match="no account nobody"):
        call_command("login_link", "nobody", "--new-password")
    with pytest.raises(CommandError, match="forgotten"):
        call_command("login_link", "--new-password")
