"""Every address, visited with each role: what a person may not see does not exist."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.search.indexed import index_all
from tests.views.access.test_urls import (
    ALL,
    API,
    BY_LINK,
    ENTRANCES,
    FORMS,
    LOGIN,
    PUBLIC,
    READ,
    addresses_at,
    rows,
)
from tests.views.forking import create_location
from viewer.models import (
    Annotation,
    Checkpoint,
    Collection,
    CollectionItem,
    Comment,
    Job,
    Level,
    Location,
    Question,
    Right,
    Role,
    Run,
    SearchEntry,
    ShareLink,
    Sweep,
    Team,
)
from viewer.models.roles import VisibleManager
from viewer.presentation.share_links import Subject
from viewer.records.accounts import teammate
from viewer.records.permissions import Rule

# What differs between two responses with the same content.
CHANGING = re.compile(
    r'csrfmiddlewaretoken" value="[^"]*"|"X-CSRFToken": "[^"]*"|name="key" value="[^"]*"|<time.*?</time>'
)
HIDDEN = "hiddenteam"
LEVELS = (None, *Level)


def rule_of(name: str) -> Rule:
    rule: Rule = getattr(ALL[name].callback, "rule")  # noqa: B009
    return rule


WITHOUT_A_RULE = PUBLIC | BY_LINK | ENTRANCES | {"login", "login-link", "invitation"}
RULED = sorted(set(ALL) - WITHOUT_A_RULE - API - LOGIN)


@pytest.fixture
def own(location: Location) -> Location:
    """Return the location on which people get roles."""
    return location


@pytest.fixture
def addresses(own: Location, settings: LazySettings) -> dict[str, str]:
    settings.AUDIT = True
    return addresses_at(own)


@pytest.fixture
def hidden(addresses: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the addresses of a location that is another team's, of which each row has a name to look for."""
    return hide(create_location(tmp_path / HIDDEN))


def hide(location: Location) -> dict[str, str]:
    found = addresses_at(location, "otto")
    Run.objects.filter(location=location).update(name=HIDDEN, key=HIDDEN, model=HIDDEN)
    Checkpoint.objects.filter(location=location).update(branch=HIDDEN, name=HIDDEN, subject=HIDDEN)
    Job.objects.filter(location=location).update(branch=HIDDEN, result=HIDDEN, model=HIDDEN)
    Question.objects.filter(job__location=location).update(prompt=HIDDEN)
    Sweep.objects.filter(checkpoint__location=location).update(name=HIDDEN)
    Annotation.objects.create(location_uid=location.uid, run_key=HIDDEN, name=HIDDEN, is_starred=True)
    item = CollectionItem.objects.get(location_uid=location.uid)
    CollectionItem.objects.filter(pk=item.pk).update(note=HIDDEN, title=HIDDEN)
    Collection.objects.filter(pk=item.collection_id).update(name=HIDDEN, description=HIDDEN)
    Comment.objects.filter(location_uid=location.uid).update(run_key=HIDDEN, text=HIDDEN)
    ShareLink.objects.filter(made_by__username="otto").update(title=HIDDEN)
    index_all()
    SearchEntry.objects.filter(location=location).update(agent=HIDDEN, unit=HIDDEN)
    return found


def person(level: Level | None, location: Location, *, in_team: bool = False) -> User:
    """Return a user who has only this role, alone or in a team."""
    user = teammate(f"{level}-{in_team}")
    user.roles.all().delete()
    if level and in_team:
        team = Team.objects.create(name="ours")
        team.members.add(user)
        Role.objects.create(team=team, location=location, level=level)
    elif level:
        Role.objects.create(user=user, location=location, level=level)
    return user


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def missing(address: str) -> str:
    """Return the address with keys of rows that do not exist."""
    unknown = Subject(ShareLink.Kind.RUN, str(uuid.uuid4())).path
    address = re.sub(r"(?<=/preview/)[^/]+", unknown, address)
    address = re.sub(r"[0-9a-f-]{36}", str(uuid.uuid4()), address)
    return re.sub(r"/\d+(?=/|$)", "/987654321", address)


def shown(response: Any, address: str) -> str:
    return CHANGING.sub("", response.content.decode(errors="replace")).replace(address, "")


def test_each_address_has_a_rule() -> None:
    assert {name for name in ALL if not hasattr(ALL[name].callback, "rule")} == WITHOUT_A_RULE


@pytest.fixture
def clients(own: Location) -> dict[Level | None, Client]:
    """Return a client for each role on this location alone, one of which is a team's."""
    return {level: client_of(person(level, own, in_team=level == Level.OPERATOR)) for level in LEVELS}


def test_a_location_of_another_team_does_not_exist(
    clients: dict[Level | None, Client], hidden: dict[str, str]
) -> None:
    before = rows()
    named = {name: address for name, address in hidden.items() if missing(address) != address}
    assert len(named) > 60
    for number, (level, client) in enumerate(clients.items()):
        for other, (name, address) in enumerate(named.items()):
            # Each level sends each address one of the two methods, and another level the other one.
            is_post = (number + other) % 2 == 0
            send = client.post if is_post else client.get
            form = {"text": "yes", "key": str(uuid.uuid4())} if is_post else None
            with CaptureQueriesContext(connection) as queries:
                response = send(address, form)
            with CaptureQueriesContext(connection) as of_missing:
                unknown = send(missing(address), form)
            assert response.status_code in (403, 404, 405), (name, level, response.status_code)
            assert response.status_code == unknown.status_code, (name, level, response.status_code)
            assert shown(response, address) == shown(unknown, missing(address)), (name, level)
            assert len(queries) == len(of_missing), (name, level)
    assert rows() == before
    assert all(question.is_waiting for question in Question.objects.all())
    assert set(Job.objects.values_list("status", flat=True)) == {Job.Status.QUEUED}


def test_a_role_allows_what_the_table_of_rights_says(
    clients: dict[Level | None, Client], addresses: dict[str, str]
) -> None:
    before = rows()
    for level, client in clients.items():
        for name in RULED:
            rule = rule_of(name)
            is_allowed = (level or 0) >= rule.right.level and not rule.everywhere
            # The tests of each page show what it allows.
            if is_allowed and not (rule.right == Right.VIEW and level == Level.VIEWER):
                continue
            if not level and rule.right == Right.VIEW:
                continue
            for send in (client.get, client.post):
                status = send(addresses[name]).status_code
                if is_allowed:
                    # The saved search and the token are another person's.
                    is_others = name in ("search-remove", "token-revoke")
                    assert status in (200, 204, 302, 405) or is_others or status == 422, (name, status)
                else:
                    assert status in (403, 404), (name, level, status)
    assert rows() == before


def test_pages_of_several_locations_show_nothing_of_another_team(
    clients: dict[Level | None, Client], own: Location, addresses: dict[str, str], tmp_path: Path
) -> None:
    names = sorted(name for name in READ | FORMS if missing(addresses[name]) == addresses[name])
    pages = [addresses[name] for name in names]
    pages += [f"{reverse('search')}?q=research", f"{reverse('palette')}?q=new", "/no-such-page/"]
    pages += [f"{reverse('search')}?entity=crew", f"{reverse('home')}?only=starred", f"{reverse('jobs')}?q=t"]
    run = Run.objects.get()
    pages += [run.get_absolute_url(), own.get_absolute_url(), f"{reverse('compare')}?a={run.uid}"]
    index_all()
    # What a viewer sees, an operator sees too.
    levels = [level for level in LEVELS if level != Level.VIEWER]
    before = {(level, page): shown(clients[level].get(page), page) for level in levels for page in pages}
    hide(create_location(tmp_path / HIDDEN))
    for (level, page), former in before.items():
        text = shown(clients[level].get(page), page)
        assert HIDDEN not in text, (page, level)
        # No count has changed either.
        assert text == former, (page, level)
    for name in ("search", "palette", "home", "jobs", "locations"):
        for query in (f"q={HIDDEN}", f"location={HIDDEN}"):
            address = f"{reverse(name)}?{query}"
            unknown = address.replace(HIDDEN, "unknownteam")
            client = clients[Level.ADMIN]
            text = shown(client.get(unknown), unknown).replace("unknownteam", HIDDEN)
            assert shown(client.get(address), address) == text.replace(unknown, address), address


def test_every_model_of_a_location_is_restricted() -> None:
    restricted = {model for model in models_of_viewer() if isinstance(model._default_manager, VisibleManager)}
    reached = {"Location"}
    while found := {
        model.__name__
        for model in models_of_viewer()
        if model.__name__ not in reached
        and any(
            getattr(key.related_model, "__name__", "") in reached
            for key in model._meta.fields
            if key.is_relation
        )
    }:
        reached |= found
    # Read only through the rows that they belong to.
    free = {"AcceptedEffect", "PoolMember", "Role", "SearchedRun", "HostRequest"}
    assert reached - {model.__name__ for model in restricted} <= free


def models_of_viewer() -> Iterator[type[models.Model]]:
    from django.apps import apps

    return apps.get_app_config("viewer").get_models()


def test_an_admin_of_a_location_gives_roles_there_only(own: Location, hidden: dict[str, str]) -> None:
    client = client_of(person(Level.ADMIN, own))
    other = Location.objects.exclude(pk=own.pk).get()
    User.objects.create_user("eve")
    form = {"holder": "person", "name": "eve", "level": "2"}
    before = Role.objects.count()
    for refused in ({"location": ""}, {"location": other.path}, {"location": own.path, "name": "nobody"}):
        assert client.post(reverse("role-give"), form | refused).status_code == 422
    assert Role.objects.count() == before and not User.objects.filter(username="nobody").exists()
    assert client.post(reverse("team-change"), {"team": "ours", "name": "eve"}).status_code == 404
    client.post(reverse("role-give"), form | {"location": own.path})
    page = client.get(reverse("roles")).content.decode()
    assert "eve" in page and HIDDEN not in page and "otto" not in page
    role = Role.objects.get(user__username="eve")
    assert (role.level, role.location) == (Level.OPERATOR, own)
    client.post(reverse("role-take", args=[role.pk]))
    assert not Role.objects.filter(pk=role.pk).exists()


@pytest.fixture
def owner(own: Location) -> Client:
    """Return an admin of all locations."""
    return client_of(User.objects.create_superuser("owner"))


def refused(client: Client, name: str, form: dict[str, str], *place: int) -> str:
    """Send a form that is refused, and return the page, which shows it."""
    answer = client.post(reverse(name, args=place), form)
    assert answer.status_code == 422
    return str(answer.content.decode())


def error_of(page: str, field: str) -> str:
    """Return the error that is shown at a field, which refers to it."""
    assert re.search(rf'aria-describedby="[^"]*\b{field}_error"[^>]*id="{field}"', page), field
    found = re.search(rf'id="{field}_error">([^<]+)<', page)
    return found[1] if found else ""


def test_a_refused_role_is_shown_with_what_was_typed(owner: Client) -> None:
    form = {"holder": "team", "name": "writers", "level": "3", "location": "/no/such/place"}
    page = refused(owner, "role-give", form)
    assert error_of(page, "role-location") == "There is no location /no/such/place."
    assert 'value="writers"' in page and 'value="/no/such/place"' in page
    assert '<option value="team" selected>' in page and '<option value="3" selected>' in page
    assert not Team.objects.exists()
    page = refused(owner, "role-give", {"holder": "person", "name": "no such/person", "level": "1"})
    assert "Enter a valid username" in error_of(page, "role-name") and 'value="no such/person"' in page
    assert error_of(refused(owner, "role-give", {"holder": "person", "level": "1"}), "role-name")


def test_a_refused_member_is_shown_with_what_was_typed_and_no_team_is_made(owner: Client) -> None:
    page = refused(owner, "team-change", {"team": "writers", "name": "no such/person"})
    assert "Enter a valid username" in error_of(page, "member-name")
    assert 'value="writers"' in page and 'value="no such/person"' in page
    assert not Team.objects.exists()
    page = refused(owner, "team-change", {"team": " ", "name": "eve"})
    assert error_of(page, "member-team") == "Enter a name." and 'value="eve"' in page
    form = {"team": "writers", "name": "owner", "change": "remove"}
    assert owner.post(reverse("team-change"), form).status_code == 404 and not Team.objects.exists()


def test_refused_quotas_are_shown_with_what_was_typed(owner: Client) -> None:
    team, other = Team.objects.create(name="ours"), Team.objects.create(name="theirs", quotas={"runs": 4})
    page = refused(owner, "team-quotas", {"runs": "0", "tokens": "many", "cost": "2.50"}, team.pk)
    assert error_of(page, f"runs-{team.pk}") and error_of(page, f"tokens-{team.pk}")
    assert 'value="many"' in page and 'value="2.50"' in page
    # The other team's are those that are stored.
    assert re.search(rf'value="4"[^>]*id="runs-{other.pk}"', page)


def test_one_person_sees_nothing_of_roles(own: Location, settings: LazySettings) -> None:
    User.objects.all().delete()
    client = client_of(User.objects.create_superuser("owner"))
    assert reverse("roles") not in client.get(reverse("settings")).content.decode()
    teammate("ada")
    assert reverse("roles") in client.get(reverse("settings")).content.decode()
