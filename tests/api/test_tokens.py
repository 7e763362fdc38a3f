"""A token works only as long, and only for what, its person and itself allow."""

import json
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoint_site.middleware.throttle import BUDGETS
from tests.api.conftest import program_of, with_role, with_token
from tests.terminal import Terminal
from viewer.models import ApiToken, AuditEntry, Level, Location, Role, access_of
from viewer.models.roles import Access
from viewer.records.accounts import TokenRefused, make_token, revoke_token
from viewer.records.permissions import account_named
from viewer.redaction.values import redact

LIST = "/api/locations"


def status(client: Client, address: str = LIST) -> int:
    return client.get(address).status_code


def test_only_a_hash_of_it_is_stored(location: Location) -> None:
    token, text = make_token(with_role("ada", Level.VIEWER), "ci", Level.VIEWER)
    assert status(with_token(text)) == 200
    stored = json.dumps([str(value) for value in ApiToken.objects.values().get(pk=token.pk).values()])
    assert text not in stored and text.removeprefix("fkl_") not in stored
    assert text not in str(redact(f"curl -H 'Authorization: Bearer {text}'")) and text not in str(
        redact(text)
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "fkl_", "fkl_" + "a" * 43, "fkl_" + "a" * 44, "fkl_" + "ä" * 43, "\x00", "fkl_" + "a" * 30_000),
        "' OR 1=1 --",
    ],
)
def test_what_is_no_token_is_refused(location: Location, text: str) -> None:
    response = with_token(text).get(LIST)
    assert response.status_code == 401
    assert set(response.json()) == {"error"} and response["WWW-Authenticate"] == "Bearer"


def test_a_session_is_no_token(location: Location) -> None:
    client = Client()
    client.force_login(with_role("ada", Level.ADMIN))
    assert status(client) == 401
    _token, text = make_token(with_role("vera", Level.VIEWER), "ci", Level.VIEWER)
    # The token decides, not the cookie of an admin, and it opens no page.
    client = Client(headers={"Authorization": f"Bearer {text}"})
    assert status(client, reverse("home")) == 302
    client.force_login(User.objects.get(username="ada"))
    assert client.post(f"/api/jobs/{location.uid}/cancel").status_code in (403, 404)


def test_other_schemes_and_places_are_refused(location: Location) -> None:
    _token, text = make_token(with_role("ada", Level.VIEWER), "ci", Level.VIEWER)
    assert status(Client(headers={"Authorization": f"Basic {text}"})) == 401
    assert status(Client(headers={"Authorization": text})) == 401
    assert status(Client(), f"{LIST}?token={text}&access_token={text}") == 401
    assert status(Client(headers={"Authorization": f"bearer {text}"})) == 200


def test_it_ends_when_it_expires_is_revoked_or_its_person_goes(location: Location) -> None:
    user = with_role("ada", Level.VIEWER)
    token, text = make_token(user, "ci", Level.VIEWER, days=7)
    client = with_token(text)
    assert status(client) == 200
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert status(client) == 401
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() + timedelta(days=1))
    assert status(client) == 200
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert status(client) == 401
    User.objects.filter(pk=user.pk).update(is_active=True)
    Role.objects.filter(user=user).delete()
    assert status(client) == 401
    Role.objects.create(user=user, level=Level.VIEWER)
    assert status(client) == 200
    assert revoke_token(token) and not revoke_token(token)
    assert status(client) == 401
    user.delete()
    assert not ApiToken.objects.exists() and status(client) == 401


def test_its_access_is_the_least_of_its_own_and_its_persons() -> None:
    access = Access(1, everywhere=Level.VIEWER, at={7: Level.ADMIN, 8: Level.OPERATOR})
    assert access.limited_to(Level.OPERATOR, None) == Access(0, Level.VIEWER, {7: 2, 8: 2})
    assert access.limited_to(Level.ADMIN, [7, 9]) == Access(0, 0, {7: 3, 9: 1})
    assert access.limited_to(Level.VIEWER, []) == Access()
    assert Access(1, at={7: Level.VIEWER}).limited_to(Level.ADMIN, [8]) == Access()


def test_a_removed_location_leaves_no_more_than_the_others(location: Location) -> None:
    user = with_role("ada", Level.VIEWER)
    other = Location.objects.create(path="/other", store_kind=Location.StoreKind.JSON)
    client = program_of(user, Level.VIEWER, [other])
    assert [one["location"] for one in client.get(LIST).json()["locations"]] == ["/other"]
    other.delete()
    assert status(client) == 401


def test_a_superusers_token_is_limited_as_well(location: Location) -> None:
    owner = User.objects.create_superuser("owner")
    token, _text = make_token(owner, "ci", Level.VIEWER, [location])
    found = ApiToken.objects.select_related("user").get(pk=token.pk).limited_user
    assert access_of(found) == Access(0, 0, {location.pk: Level.VIEWER})


def test_nobody_makes_one_with_more_than_they_have(location: Location) -> None:
    user = with_role("ada", Level.OPERATOR, location)
    other = Location.objects.create(path="/other", store_kind=Location.StoreKind.JSON)
    for level, places in ((Level.ADMIN, None), (Level.ADMIN, [location]), (Level.VIEWER, [other])):
        with pytest.raises(TokenRefused):
            make_token(user, "ci", level, places)
    with pytest.raises(TokenRefused):
        make_token(account_named("nobody"), "ci", Level.VIEWER)


def test_tokens_that_do_not_work_are_throttled_and_one_that_works_is_not(location: Location) -> None:
    works, wrong = program_of(with_role("ada", Level.VIEWER), Level.VIEWER), with_token("fkl_" + "a" * 43)
    found = [wrong.get(LIST).status_code for _ in range(BUDGETS["token"].amount + 1)]
    assert found[-2:] == [401, 429]
    assert "Retry-After" in wrong.get(LIST)
    assert status(works) == 200


def test_its_last_use_is_stored_at_most_once_a_minute(location: Location) -> None:
    user = with_role("ada", Level.VIEWER)
    token, text = make_token(user, "ci", Level.VIEWER)
    with_token(text).get(LIST)
    used = ApiToken.objects.get(pk=token.pk).last_used_at
    assert used
    with_token(text).get(LIST)
    assert ApiToken.objects.get(pk=token.pk).last_used_at == used
    ApiToken.objects.update(last_used_at=used - timedelta(minutes=2))
    with_token(text).get(LIST)
    again = ApiToken.objects.get(pk=token.pk).last_used_at
    assert again and again >= used


def test_what_it_does_is_recorded_with_its_key(location: Location, settings: LazySettings) -> None:
    settings.AUDIT = True
    token, text = make_token(with_role("ada", Level.VIEWER), "ci", Level.VIEWER)
    assert with_token(text).get("/api/questions").status_code == 200
    made, opened = (
        AuditEntry.objects.filter(action__in=("added", "opened")).exclude(kind="user").order_by("pk")
    )
    assert (made.kind, made.key, made.token) == ("token", str(token.pk), None)
    assert (opened.actor, opened.actor_kind, opened.token) == ("ada", "user", token.pk)
    admin = Client()
    admin.force_login(User.objects.create_superuser("owner"))
    assert f"API token {token.pk}" in admin.get(reverse("audit")).content.decode()


# The page and the command.


def test_the_page_shows_a_new_token_once(location: Location) -> None:
    client = Client()
    client.force_login(with_role("ada", Level.OPERATOR))
    form = {"name": "nightly", "level": "2", "locations": f"{location.path}\n", "days": "7"}
    made = client.post(reverse("token-new"), form)
    text = made.content.decode().split('<code id="token" tabindex="0">')[1].split("<")[0]
    assert status(with_token(text)) == 200
    token = ApiToken.objects.get()
    assert (token.name, token.level, list(token.locations.all())) == ("nightly", Level.OPERATOR, [location])
    page = client.get(reverse("tokens")).content.decode()
    assert "nightly" in page and location.path in page and text not in page
    client.post(reverse("token-revoke", args=[token.pk]))
    assert status(with_token(text)) == 401


def test_the_form_refuses_other_roles_places_and_days(location: Location) -> None:
    client = Client()
    client.force_login(with_role("ada", Level.VIEWER, location))
    hidden = Location.objects.create(path="/hidden", store_kind=Location.StoreKind.JSON)
    good = {"name": "ci", "level": "1", "locations": "", "days": "7"}
    for wrong in (
        *(
            {"level": "2"},
            {"level": ""},
            {"days": "9999"},
            {"name": ""},
            {"name": "a\x00b"},
            {"name": "a" * 101},
        ),
        *({"locations": hidden.path}, {"locations": "/nowhere"}, {"locations": "/a\n" * 101}),
    ):
        response = client.post(reverse("token-new"), good | wrong)
        assert response.status_code == 422, wrong
    assert not ApiToken.objects.exists()


def test_only_an_admin_of_all_locations_sees_and_revokes_the_tokens_of_others(location: Location) -> None:
    token, _text = make_token(with_role("ada", Level.VIEWER), "adas", Level.VIEWER)
    client = Client()
    for level, place, is_shown in (
        *((Level.VIEWER, None, False), (Level.OPERATOR, None, False), (Level.ADMIN, location, False)),
        (Level.ADMIN, None, True),
    ):
        client.force_login(with_role("eve", level, place))
        assert ("adas" in client.get(reverse("tokens")).content.decode()) == is_shown
        revoked = client.post(reverse("token-revoke", args=[token.pk])).status_code
        assert revoked == (302 if is_shown else 404)
    assert ApiToken.objects.get().revoked_at


def test_a_token_of_a_deactivated_person_is_shown_as_not_working(
    location: Location, terminal: Terminal
) -> None:
    user = with_role("ada", Level.VIEWER)
    token, text = make_token(user, "adas", Level.VIEWER)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert status(with_token(text)) == 401
    assert not terminal.document("tokens")["tokens"][0]["works"]
    admin = Client()
    admin.force_login(with_role("eve", Level.ADMIN))
    page = admin.get(reverse("tokens")).content.decode()
    assert "adas" in page and "does not work" in page
    # It would work again with the account.
    assert admin.post(reverse("token-revoke", args=[token.pk])).status_code == 302
    assert ApiToken.objects.get().revoked_at


def test_the_command_makes_lists_and_revokes(location: Location, terminal: Terminal) -> None:
    with_role("ada", Level.OPERATOR)
    made = terminal.document("tokens", "--new", "ci", "--person", "ada", "--role", "operator", "--days", "3")
    assert status(with_token(made["token"])) == 200
    (listed,) = terminal.document("tokens")["tokens"]
    assert listed["role"] == "operator" and listed["last_used_at"] and "token" not in listed
    assert not terminal.document("tokens", "--revoke", str(made["id"]))["tokens"][0]["works"]
    assert status(with_token(made["token"])) == 401
