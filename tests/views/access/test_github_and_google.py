"""Logins with GitHub and Google through allauth's own code, against a stand-in of both."""

from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.github.provider import GitHubProvider
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from allauth.socialaccount.providers.google.provider import GoogleProvider
from allauth.socialaccount.providers.google.views import GoogleOAuth2Adapter
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.access.stand_in import CLIENT_ID, CLIENT_SECRET, ISSUER, Providers, running_providers
from tests.views.access.test_providers import LEAVING, PASSWORD, is_logged_in
from viewer.models import Level, Location, access_of
from viewer.records.accounts import invite

pytestmark = pytest.mark.django_db
NAMES = ("github", "google")


@pytest.fixture
def providers(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Providers]:
    """Return the stand-in, which is asked instead of both."""
    app = {"client_id": CLIENT_ID, "secret": CLIENT_SECRET}
    settings.SOCIALACCOUNT_PROVIDERS = {
        name: {"APPS": [app], "OAUTH_PKCE_ENABLED": True} for name in NAMES
    } | {"openid_connect": {"APPS": []}}
    settings.TEAMS_OF_GROUPS = {"eng": "writers"}
    for provider in (GitHubProvider, GoogleProvider):
        registry.register(provider)
    with running_providers() as running:
        at = running.address
        for name, path in {
            "access_token_url": "/login/oauth/access_token",
            "authorize_url": "/login/oauth/authorize",
            "profile_url": "/user",
            "emails_url": "/user/emails",
        }.items():
            monkeypatch.setattr(GitHubOAuth2Adapter, name, f"{at}{path}")
        monkeypatch.setattr(GoogleOAuth2Adapter, "access_token_url", f"{at}/token")
        monkeypatch.setattr(GoogleOAuth2Adapter, "authorize_url", f"{at}/o/oauth2/v2/auth")
        yield running
    registry.provider_map.clear()


def say(providers: Providers, key: int, name: str, email: str, *, verified: bool = True) -> None:
    """Have both say this about the person who logs in next."""
    providers.github = {"id": key, "login": name, "name": name, "email": None, "groups": ["eng"]}
    providers.emails = [{"email": email, "primary": True, "verified": verified}]
    providers.google = {"sub": str(key), "email": email, "email_verified": verified, "groups": ["eng"]}
    providers.google |= {"name": name, "given_name": name}


def back_from(name: str, client: Client, **form: str) -> str:
    """Go to the provider, and agree there. Return the address with which it sends the person back."""
    page = client.post(f"/login/{name}/", form)
    found = LEAVING.search(page.content.decode())
    assert found, page.content
    sent = requests.get(unescape(found[1]), allow_redirects=False, timeout=60)
    at = urlsplit(sent.headers["Location"])
    return f"{at.path}?{at.query}"


def log_in(name: str, client: Client, **form: str) -> Any:
    return client.get(back_from(name, client, **form))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_who_is_not_invited_gets_no_account_and_no_other_one(name: str, providers: Providers) -> None:
    victim = User.objects.create_superuser("victim", "victim@example.org", PASSWORD)
    # Only the company's own provider says which groups somebody is in.
    for verified in (True, False):
        say(providers, 7, "victim", "victim@example.org", verified=verified)
        client = Client()
        assert log_in(name, client).status_code == 200 and not is_logged_in(client)
    assert list(User.objects.all()) == [victim] and not SocialAccount.objects.exists()
    assert not victim.teams.exists()


def test_an_invited_person_is_found_again_by_the_id_alone(
    name: str, providers: Providers, location: Location
) -> None:
    say(providers, 7, "ada", "ada@example.org")
    _invitation, token = invite(None, level=Level.OPERATOR, location=location)
    client = Client()
    assert log_in(name, client, invitation=token).status_code == 302 and is_logged_in(client)
    ada = User.objects.get()
    assert access_of(ada).at == {location.pk: Level.OPERATOR}
    # GitHub's profile has none that is verified.
    assert ada.email == ("ada@example.org" if name == "google" else "")
    assert not ada.teams.exists() and not ada.has_usable_password()
    say(providers, 7, "ada-renamed", "new@example.org")
    again = Client()
    assert log_in(name, again, next="/jobs/")["Location"] == "/jobs/" and is_logged_in(again)
    # Somebody else has the name and the address now.
    say(providers, 8, "ada", "ada@example.org")
    other = Client()
    assert log_in(name, other).status_code == 200 and not is_logged_in(other)
    assert log_in(name, other, invitation=token).status_code == 200 and not is_logged_in(other)
    assert User.objects.count() == 1
    User.objects.update(is_active=False)
    say(providers, 7, "ada", "ada@example.org")
    gone = Client()
    assert log_in(name, gone)["Location"] == reverse("account_inactive") and not is_logged_in(gone)


def test_an_unverified_address_is_not_stored(name: str, providers: Providers, location: Location) -> None:
    say(providers, 9, "eve", "boss@example.org", verified=False)
    _invitation, token = invite(None, level=Level.VIEWER, location=location)
    log_in(name, Client(), invitation=token)
    assert User.objects.get().email == ""


def test_an_account_is_linked_after_the_password(name: str, providers: Providers) -> None:
    User.objects.create_user("caro", password=PASSWORD)
    say(providers, 7, "carol", "carol@example.org")
    client = Client()
    client.post(reverse("login"), {"username": "caro", "password": PASSWORD})
    answer = back_from(name, client, process="connect")
    assert client.get(answer)["Location"].startswith(reverse("account_reauthenticate"))
    assert not SocialAccount.objects.exists()
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    assert SocialAccount.objects.get().user.username == "caro"
    other = Client()
    log_in(name, other)
    assert is_logged_in(other) and User.objects.count() == 1


def test_an_answer_counts_once_for_the_browser_that_asked(
    name: str, providers: Providers, location: Location
) -> None:
    say(providers, 7, "finn", "finn@example.org")
    _invitation, token = invite(None, level=Level.VIEWER, location=location)
    client = Client()
    answer = back_from(name, client, invitation=token, next="https://evil.example/")
    # Another browser has not asked, and its attempt uses nothing.
    stranger = Client()
    assert stranger.get(answer).status_code in (200, 401) and not is_logged_in(stranger)
    forged = Client()
    asked = back_from(name, forged)
    for wrong in (asked.replace("code=", "code=x"), f"/login/{name}/back/?error=access_denied", asked):
        assert forged.get(wrong).status_code in (200, 302, 401) and not is_logged_in(forged), wrong
    assert client.get(answer)["Location"] == reverse("home") and is_logged_in(client)
    assert not User.objects.exclude(username="finn").exists()


def test_googles_token_is_of_google_and_for_this_server(providers: Providers, location: Location) -> None:
    _invitation, token = invite(None, level=Level.VIEWER, location=location)
    for wrong in ({"iss": "https://evil.example"}, {"aud": "another"}, {"exp": 1}):
        say(providers, 7, "gina", "gina@example.org")
        providers.google |= wrong
        client = Client()
        log_in("google", client, invitation=token)
        assert not is_logged_in(client) and not User.objects.exists(), wrong
    say(providers, 7, "gina", "gina@example.org")
    providers.google |= {"iss": ISSUER}
    client = Client()
    log_in("google", client, invitation=token)
    assert is_logged_in(client)
