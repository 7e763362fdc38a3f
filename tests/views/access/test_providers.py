"""Logins with a provider, against an OpenID Connect server: who gets an account, and which teams."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.github.provider import GitHubProvider
from allauth.socialaccount.providers.google.provider import GoogleProvider
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from oidc_provider_mock import run_server_in_thread

from viewer.models import AuditEntry, Invitation, Level, Location, Team, access_of
from viewer.records.accounts import invite, revoke_invitation
from viewer.records.permissions import add_member, give, team_named

PASSWORD = "green tea, twice"
LEAVING = re.compile(r'http-equiv="refresh" content="0;url=([^"]+)"')
pytestmark = pytest.mark.django_db
LOGIN = "/login/oidc/provider/"


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Iterator[None]:
    """Have the providers known, as if the settings named them when the server started."""
    for provider in (GitHubProvider, GoogleProvider, OpenIDConnectProvider):
        registry.register(provider)
    yield
    registry.provider_map.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with run_server_in_thread() as running:
        yield f"http://localhost:{running.server_port}"


@pytest.fixture(autouse=True)
def provider(server: str, settings: LazySettings) -> str:
    app: dict[str, Any] = {
        "provider_id": "provider",
        "name": "Company",
        "client_id": "forkline",
        "secret": "s",
    }
    app |= {"settings": {"server_url": server, "oauth_pkce_enabled": True}}
    settings.SOCIALACCOUNT_PROVIDERS = {**settings.SOCIALACCOUNT_PROVIDERS, "openid_connect": {"APPS": [app]}}
    settings.TEAMS_OF_GROUPS = {"eng": "writers", "ops": "operators"}
    settings.AUDIT = True
    return server


def claim(server: str, name: str, **claims: Any) -> None:
    """Have the provider say this about a person."""
    answer = requests.put(f"{server}/users/{name}", json={"preferred_username": name, **claims}, timeout=60)
    assert answer.ok, answer.text


def back_from(client: Client, name: str, **form: str) -> str:
    """Go to the provider, and log in there. Return the address with which it sends the person back."""
    page = client.post(LOGIN, form)
    found = LEAVING.search(page.content.decode())
    assert found, page.content
    sent = requests.post(unescape(found[1]), data={"sub": name}, allow_redirects=False, timeout=60)
    at = urlsplit(sent.headers["Location"])
    return f"{at.path}?{at.query}"


def log_in(client: Client, name: str, **form: str) -> Any:
    return client.get(back_from(client, name, **form))


def is_logged_in(client: Client) -> bool:
    return int(client.get(reverse("jobs")).status_code) == 200


def test_a_member_of_a_group_gets_an_account_and_its_teams(provider: str, location: Location) -> None:
    give(team_named("writers"), Level.OPERATOR, location)
    claim(provider, "ada", groups=["eng", "others"])
    client = Client()
    page = client.get(reverse("login")).content.decode()
    assert "Continue with Company" in page
    assert log_in(client, "ada", next="/jobs/")["Location"] == "/jobs/"
    ada = User.objects.get(username="ada")
    assert is_logged_in(client) and not ada.has_usable_password()
    assert access_of(ada).at == {location.pk: Level.OPERATOR}
    assert {"ada", "writers: added ada"} <= set(AuditEntry.objects.values_list("detail", flat=True))


def test_groups_are_followed_at_each_login(provider: str) -> None:
    claim(provider, "bob", groups=["eng"])
    log_in(Client(), "bob")
    bob = User.objects.get(username="bob")
    add_member(team_named("guests"), bob)
    claim(provider, "bob", groups=["ops"])
    log_in(Client(), "bob")
    assert set(bob.teams.values_list("name", flat=True)) == {"operators", "guests"}
    shown: tuple[tuple[Any, set[str]], ...] = (
        ([["eng"], 7, "ops"], {"operators", "guests"}),
        ({"eng": 1}, {"guests"}),
        ("eng", {"writers", "guests"}),
        (None, {"guests"}),
    )
    for groups, teams in shown:
        claim(provider, "bob", groups=groups)
        log_in(Client(), "bob")
        assert set(bob.teams.values_list("name", flat=True)) == teams, groups
    assert User.objects.count() == 1


def test_who_is_in_no_group_and_not_invited_gets_no_account(provider: str) -> None:
    claim(provider, "eve", groups=["others"])
    client = Client()
    answer = log_in(client, "eve")
    assert answer.status_code == 200 and not is_logged_in(client)
    assert not User.objects.exists() and not SocialAccount.objects.exists()


def test_an_invitation_is_accepted_with_a_provider_once(provider: str, location: Location) -> None:
    claim(provider, "eve2")
    claim(provider, "otto")
    _invitation, token = invite(None, level=Level.VIEWER, location=location)
    page = Client().get(reverse("invitation", args=[token])).content.decode()
    assert "Continue with Company" in page and f'value="{token}"' in page
    client = Client()
    assert log_in(client, "eve2", invitation=token).status_code == 302 and is_logged_in(client)
    eve = User.objects.get()
    assert access_of(eve).at == {location.pk: Level.VIEWER} and Invitation.objects.get().used_by == eve
    assert log_in(Client(), "otto", invitation=token).status_code == 200
    revoked, token = invite(None, level=Level.ADMIN)
    revoke_invitation(revoked)
    for unknown in (token, "x", "x" * 9999):
        assert log_in(Client(), "otto", invitation=unknown).status_code == 200
    assert User.objects.count() == 1


def test_no_account_is_found_by_an_address_or_a_name(provider: str) -> None:
    victim = User.objects.create_superuser("victim", "victim@example.org", PASSWORD)
    for verified in (True, False, "true", None):
        claim(provider, "victim", email="victim@example.org", email_verified=verified, groups=["eng"])
        client = Client()
        log_in(client, "victim")
        assert client.session.get("_auth_user_id") != str(victim.pk)
    assert not SocialAccount.objects.filter(user=victim).exists()
    other = User.objects.exclude(pk=victim.pk).get()
    assert not other.is_superuser and other.username != "victim"


def test_an_account_is_linked_only_by_its_owner_after_the_password(provider: str) -> None:
    claim(provider, "carol")
    User.objects.create_user("caro", password=PASSWORD)
    client = Client()
    client.post(reverse("login"), {"username": "caro", "password": PASSWORD})
    # A link of another page starts nothing.
    assert LEAVING.search(client.get(f"{LOGIN}?process=connect").content.decode()) is None
    answer = back_from(client, "carol", process="connect")
    # The answer belongs to the browser that asked, and the password is asked for.
    assert Client().get(answer).status_code in (200, 401)
    assert client.get(answer)["Location"].startswith(reverse("account_reauthenticate"))
    assert not SocialAccount.objects.exists()
    assert client.post(reverse("account_reauthenticate"), {"password": "wrong"}).status_code == 200
    assert client.post(reverse("account_reauthenticate"), {"password": PASSWORD}).status_code == 302
    assert SocialAccount.objects.get().user.username == "caro"
    assert client.get(reverse("socialaccount_connections")).status_code == 200
    other = Client()
    log_in(other, "carol")
    assert is_logged_in(other) and User.objects.count() == 1


def test_a_second_factor_and_a_deactivated_account_count_here_too(provider: str) -> None:
    claim(provider, "dora", groups=["eng"])
    log_in(Client(), "dora")
    dora = User.objects.get()
    TOTP.activate(dora, generate_totp_secret())
    client = Client()
    assert log_in(client, "dora")["Location"] == reverse("mfa_authenticate") and not is_logged_in(client)
    User.objects.update(is_active=False)
    assert log_in(client, "dora")["Location"] == reverse("account_inactive") and not is_logged_in(client)


def test_an_answer_works_once_and_leads_to_no_other_host(provider: str) -> None:
    claim(provider, "finn", groups=["eng"])
    client = Client()
    answer = back_from(client, "finn", next="https://evil.example/")
    assert client.get(answer)["Location"] == reverse("home")
    other = Client()
    for again in (answer, answer.replace("code=", "code=x"), "/login/oidc/provider/back/?code=1&state=2"):
        assert other.get(again).status_code in (200, 401) and not is_logged_in(other)


def test_other_providers_do_not_exist(settings: LazySettings) -> None:
    for address in ("/login/github/", "/login/google/", "/login/oidc/other/", "/login/github/back/"):
        for method in ("get", "post"):
            assert getattr(Client(), method)(address).status_code == 404, address
    settings.SOCIALACCOUNT_PROVIDERS = {
        "github": {"APPS": [{"client_id": "a", "secret": "b"}]},
        "google": {"APPS": [{"client_id": "a", "secret": "b"}]},
        "openid_connect": {"APPS": []},
    }
    page = Client().get(reverse("login")).content.decode()
    assert "Continue with GitHub" in page and "Continue with Google" in page
    for name, host in (("github", "https://github.com/"), ("google", "https://accounts.google.com/")):
        found = LEAVING.search(Client().post(f"/login/{name}/").content.decode())
        assert found and found[1].startswith(host) and f"login%2F{name}%2Fback" in found[1]


def test_a_provider_that_is_away_says_so(settings: LazySettings) -> None:
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = (
        "http://localhost:9"
    )
    answer = Client().post(LOGIN, follow=True)
    assert "does not answer" in answer.content.decode()


def test_of_two_people_who_log_in_first_one_makes_their_team(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = Team.clean_fields

    def overtaken(team: Team, exclude: Any = None) -> None:
        clean(team, exclude)
        Team.objects.create(name=team.name)

    monkeypatch.setattr(Team, "clean_fields", overtaken)
    assert team_named("writers") == Team.objects.get()
