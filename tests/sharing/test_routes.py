"""A token opens its own addresses and nothing else: every other address refuses, whatever it is given."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.sharing.conftest import share, token_of
from tests.views.access.test_urls import ALL, API, BY_LINK, ENTRANCES, LOGIN, PUBLIC, addresses_at
from viewer.models import Checkpoint, Job, Location, Run, ShareLink

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")


@pytest.fixture
def opened(run_link: str, stranger: Client) -> Client:
    """Return a browser that has opened a link, with the cookie that it got."""
    assert stranger.get(run_link).status_code == 200 and stranger.cookies
    return stranger


def test_exactly_these_addresses_need_no_login_but_a_token() -> None:
    marked = {name for name, pattern in ALL.items() if getattr(pattern.callback, "through_link", False)}
    assert marked == BY_LINK
    public = {name for name, pattern in ALL.items() if not getattr(pattern.callback, "login_required", True)}
    assert public == BY_LINK | PUBLIC | {"login", "login-link", "invitation"} | ENTRANCES


def test_no_other_address_accepts_a_token(opened: Client, run_link: str, location: Location) -> None:
    token = token_of(run_link)
    counts = [model.objects.count() for model in (Job, Checkpoint, ShareLink)]
    everything = addresses_at(location)
    counts = [model.objects.count() for model in (Job, Checkpoint, ShareLink)]
    assert set(everything) == set(ALL) - LOGIN - PUBLIC - BY_LINK - API
    for name, address in everything.items():
        mark = "&" if "?" in address else "?"
        for asked in (address, f"{address}{mark}token={token}", f"{address}{mark}sesame={token}"):
            answer = opened.get(asked, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 302 and answer["Location"].startswith(reverse("login")), name
        assert opened.post(address, {"token": token, "days": "7"}).status_code == 302, name
    answer = opened.get(reverse("api-locations"), headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert [model.objects.count() for model in (Job, Checkpoint, ShareLink)] == counts


def test_a_link_accepts_no_forms(run_link: str, stranger: Client) -> None:
    for address in (run_link, f"{run_link}rows/"):
        for method in METHODS:
            status = getattr(stranger, method)(address).status_code
            assert status == (200 if method in ("get", "head") else 405), method


def test_a_token_opens_no_other_object(
    checkpoint_link: str, run_link: str, crew_run: Run, stranger: Client, location: Location
) -> None:
    token = token_of(checkpoint_link)
    tail = [
        "../",
        "..%2f",
        "%2e%2e/",
        "rows/",
        f"../{crew_run.uid}/",
        f"{crew_run.uid}/",
        "picture.txt",
        "%00",
        "rows//",
        f"../../runs/{crew_run.uid}/",
        f"..%2f..%2fruns%2f{crew_run.uid}%2f",
        "?kind=run",
        "?uid=1",
        "raw/",
        "export/",
    ]
    for more in tail:
        answer = stranger.get(f"/shared/{token}/{more}", follow=False)
        if answer.status_code == 200:
            page = answer.content.decode()
            assert 'id="lineage"' not in page, more
        else:
            assert answer.status_code in (301, 302, 404), more
    for wrong in (
        token[:-1],
        token + "a",
        token.swapcase(),
        f" {token}",
        token + "%20",
        "x" * 100_000,
        "\u0000",
        "é",
    ):
        assert stranger.get(f"/shared/{wrong}/").status_code in (404, 429), wrong[:50]


def test_a_link_to_a_run_opens_no_run_that_it_calls(
    imported: object, stranger: Client, location: Location, crew_run: Run
) -> None:
    other = Run.objects.create(location=location, key="other", entity="crew", name="other")
    address = share("run", str(crew_run.uid))
    for query in (f"?run={other.uid}", f"?uid={other.uid}", f"?target={other.uid}"):
        assert stranger.get(address + query).context["run"] == crew_run
