"""Invitations: who may make them, and that each creates at most one account with what it gives."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from limits.storage import MemoryStorage

from checkpoint_site.middleware import throttle
from checkpoint_site.middleware.throttle import Throttle
from tests.views.forking import create_location
from viewer.models import AuditEntry, Invitation, Level, Location, Role, Team, access_of
from viewer.records.accounts import invite, teammate
from viewer.records.permissions import give, take

PASSWORD = "green tea, twice"


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Throttle:
    """Return new counts for each test."""
    fresh = Throttle(MemoryStorage())
    monkeypatch.setattr(throttle, "throttle", fresh)
    return fresh


@pytest.fixture
def admin(location: Location) -> User:
    """Return an admin of this location only."""
    user = teammate("ada")
    user.roles.all().delete()
    give(user, Level.ADMIN, location)
    return user


def link_of(**given: Any) -> str:
    _invitation, token = invite(given.pop("maker", None), **given)
    return reverse("invitation", args=[token])


def joined(link: str, name: str = "eve", client: Client | None = None, **changed: Any) -> Any:
    form = {"username": name, "password1": PASSWORD, "password2": PASSWORD}
    return (client or Client()).post(link, form | changed)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_person_chooses_a_name_and_a_password_and_is_logged_in_with_the_role(
    location: Location, settings: LazySettings
) -> None:
    settings.AUDIT = True
    team = Team.objects.create(name="writers")
    link = link_of(level=Level.OPERATOR, location=location, team=team)
    browser = Client()
    page = browser.get(link).content.decode()
    assert location.path in page and "writers" in page
    assert joined(link, client=browser)["Location"] == reverse("home")
    eve = User.objects.get(username="eve")
    assert browser.get(location.get_absolute_url()).status_code == 200
    assert access_of(eve).at == {location.pk: Level.OPERATOR} and list(eve.teams.all()) == [team]
    assert Client().login(username="eve", password=PASSWORD)
    invitation = Invitation.objects.get()
    assert (invitation.used_by, invitation.used_at is not None) == (eve, True)
    acts = AuditEntry.objects.filter(actor="eve").values_list("action", "kind", "result")
    assert set(acts) >= {("accepted", "invitation", "done"), ("logged_in", "user", "done")}
    # Neither the page nor the audit trail has the token, and the row has only its hash.
    assert link.split("/")[-2] not in "".join(map(str, AuditEntry.objects.values())) + str(vars(invitation))


def test_opening_a_link_does_not_use_it(location: Location) -> None:
    link = link_of(level=Level.VIEWER)
    bot = Client(headers={"User-Agent": "Slackbot-LinkExpanding 1.0"})
    for method in (bot.get, bot.head, bot.get):
        assert method(link).status_code == 200
    assert Client(enforce_csrf_checks=True).post(link, {"username": "eve"}).status_code == 403
    assert not User.objects.exists() and Invitation.objects.get().used_at is None
    assert joined(link).status_code == 302


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"used_at": timezone.now()}, "already used"),
        ({"revoked_at": timezone.now()}, "was revoked"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "has expired"),
    ],
)
def test_a_link_that_ended_says_why_and_creates_nothing(db: None, change: dict[str, Any], text: str) -> None:
    link = link_of(level=Level.ADMIN)
    Invitation.objects.update(**change)
    for answer in (Client().get(link), joined(link)):
        assert answer.status_code == 403 and text in answer.content.decode()
    assert not User.objects.exists()


def test_an_unknown_link_says_that_it_is_incomplete(db: None) -> None:
    link = link_of(level=Level.ADMIN)
    for unknown in (link[:-2] + "/", "/invitation/x/", f"/invitation/{'x' * 5000}/", "/invitation/%00é/"):
        answer = joined(unknown)
        assert answer.status_code == 403 and "incomplete" in answer.content.decode(), unknown
    assert not User.objects.exists()


def test_simultaneous_uses_of_a_link_create_one_account(transactional_db: None) -> None:
    link = link_of(level=Level.VIEWER)

    def used(number: int) -> int:
        status = int(joined(link, f"eve{number}").status_code)
        connection.close()
        return status

    with ThreadPoolExecutor(4) as people:
        assert sorted(people.map(used, range(4))) == [302] + [403] * 3
    assert User.objects.count() == Role.objects.count() == 1


def test_an_invitation_ends_with_the_right_of_its_maker(location: Location, admin: User) -> None:
    links = [link_of(maker=admin, level=Level.VIEWER, location=location) for _ in range(2)]
    take(admin, location)
    answer = joined(links[0])
    assert answer.status_code == 403 and "no longer has the right" in answer.content.decode()
    give(admin, Level.ADMIN, location)
    User.objects.update(is_active=False)
    assert joined(links[0]).status_code == 403
    User.objects.update(is_active=True)
    assert joined(links[0]).status_code == 302
    admin.delete()
    assert joined(links[1], "otto").status_code == 403
    assert set(User.objects.values_list("username", flat=True)) == {"eve"}


def test_a_removed_location_or_team_ends_its_invitations(location: Location) -> None:
    team = Team.objects.create(name="writers")
    links = [link_of(level=Level.ADMIN, location=location), link_of(team=team)]
    location.delete()
    team.delete()
    assert [joined(link).status_code for link in links] == [403, 403]
    assert not User.objects.exists()


def test_a_refused_invitation_is_shown_with_what_was_typed(location: Location) -> None:
    Team.objects.create(name="writers")
    owner = client_of(User.objects.create_superuser("owner"))
    form = {"level": "2", "location": "/no/such/place", "team": "writers", "days": "30"}
    answer = owner.post(reverse("invitation-new"), form)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'id="invited-location_error">There is no location /no/such/place.<' in page
    for kept in ('value="2" selected', 'value="writers" selected', 'value="30" selected'):
        assert f"<option {kept}>" in page
    page = owner.post(reverse("invitation-new"), {"level": "", "days": "7"}).content.decode()
    assert 'id="invited-level_error">Choose a role, a team or both.<' in page
    assert not Invitation.objects.exists()


def test_an_admin_of_a_location_invites_there_only(location: Location, admin: User, tmp_path: Any) -> None:
    client, other = client_of(admin), create_location(tmp_path / "others")
    Team.objects.create(name="writers")
    form = {"level": "2", "location": location.path, "days": "7"}
    for refused in (
        {"location": ""},
        {"location": other.path},
        {"team": "writers"},
        {"level": ""},
        {"level": "4"},
        {"days": "9999"},
    ):
        assert client.post(reverse("invitation-new"), form | refused).status_code == 422, refused
    assert not Invitation.objects.exists()
    page = client.post(reverse("invitation-new"), form).content.decode()
    invitation = Invitation.objects.get()
    assert invitation.made_by == admin and "/invitation/" in page
    # What others invite to does not exist.
    elsewhere = invite(None, level=Level.VIEWER, location=other)[0]
    everywhere = invite(None, level=Level.VIEWER)[0]
    listed = client.get(reverse("roles")).content.decode()
    assert location.path in listed and other.path not in listed
    for hidden in (elsewhere, everywhere):
        assert client.post(reverse("invitation-revoke", args=[hidden.pk])).status_code == 404
    assert client.post(reverse("invitation-revoke", args=[invitation.pk])).status_code == 302
    assert set(Invitation.objects.filter(revoked_at=None)) == {elsewhere, everywhere}


@pytest.mark.parametrize(
    "form",
    [
        {"username": "ADA"},
        {"username": "a b"},
        {"username": ""},
        {"password2": "another"},
        {"password1": "short", "password2": "short"},
        {"username": "evelyn-writes", "password1": "evelyn-writes", "password2": "evelyn-writes"},
    ],
)
def test_a_refused_name_or_password_leaves_the_invitation_open(db: None, form: dict[str, Any]) -> None:
    teammate("ada")
    link = link_of(level=Level.ADMIN)
    answer = joined(link, **form)
    assert answer.status_code == 422 and "errorlist" in answer.content.decode()
    assert User.objects.count() == 1 and Invitation.objects.get().used_at is None
    assert joined(link).status_code == 302


def test_a_person_with_an_account_accepts_as_themselves_and_loses_nothing(location: Location) -> None:
    eve = teammate("eve")
    give(eve, Level.ADMIN, location)
    client = client_of(eve)
    link = link_of(level=Level.VIEWER, location=location, team=Team.objects.create(name="writers"))
    assert "Accept as eve" in client.get(link).content.decode()
    assert client.post(link).status_code == 302
    assert access_of(User.objects.get()).level_at(location.pk) == Level.ADMIN and eve.teams.count() == 1
    assert client.post(link).status_code == 403


def test_links_that_do_not_work_and_guessed_names_are_limited(db: None) -> None:
    teammate("ada")
    link = link_of(level=Level.VIEWER)
    assert [Client().get("/invitation/x/").status_code for _ in range(5)] == [403] * 5
    assert [joined(link, "ada").status_code for _ in range(6)] == [422] * 5 + [429]
    answer = Client().get("/invitation/x/")
    assert answer.status_code == 429 and "Try again in" in answer.content.decode()
    # A link that works is never refused.
    assert Client().get(link).status_code == 200
