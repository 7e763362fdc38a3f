"""Every address of version 0.1.0 works or redirects to its replacement."""

from uuid import UUID

import pytest
from django.test import Client
from django.urls import Resolver404, resolve

UID = UUID("00000000-0000-4000-8000-000000000001")
# The addresses of version 0.1.0 and their replacements. None means unchanged.
ADDRESSES = {
    "/": None,
    "/locations/add/": None,
    f"/locations/{UID}/": None,
    f"/locations/{UID}/refresh/": None,
    f"/locations/{UID}/replaced/": None,
    f"/locations/{UID}/forget/": f"/locations/{UID}/remove/",
    f"/locations/{UID}/project/": None,
    f"/locations/{UID}/project/limits/": None,
    f"/locations/{UID}/run/": None,
    f"/locations/{UID}/run/plan/": None,
    f"/runs/{UID}/": None,
    f"/runs/{UID}/rows/": None,
    f"/runs/{UID}/again/": None,
    "/checkpoints/7/": None,
    "/checkpoints/7/raw/": None,
    "/checkpoints/7/fork/": None,
    "/checkpoints/7/fork/plan/": None,
    "/checkpoints/7/resume/": None,
    "/checkpoints/7/resume/plan/": None,
    f"/looks/{UID}/": f"/preflight/{UID}/",
    "/checkpoints/7/variations/": "/checkpoints/7/sweep/",
    "/checkpoints/7/variations/plan/": "/checkpoints/7/sweep/plan/",
    "/jobs/": None,
    "/jobs/waiting/": None,
    "/jobs/limits/": None,
    f"/jobs/{UID}/": None,
    f"/jobs/{UID}/wait/": None,
    f"/jobs/{UID}/start/": None,
    f"/variations/{UID}/": f"/sweeps/{UID}/",
    f"/jobs/{UID}/cancel/": None,
    "/questions/": "/inbox/",
    "/questions/waiting/": "/inbox/waiting/",
    "/questions/count/": "/inbox/count/",
    f"/jobs/{UID}/questions/1/": None,
    f"/jobs/{UID}/questions/1/answer/": None,
}
MOVED = {old: new for old, new in ADDRESSES.items() if new}


@pytest.mark.parametrize("old", [old for old in ADDRESSES if old not in MOVED])
def test_other_addresses_are_unchanged(old: str) -> None:
    assert not str(resolve(old).view_name).startswith("moved-")


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_link_to_a_moved_address_redirects_with_its_query(reader: Client, old: str, new: str) -> None:
    assert not str(resolve(new).view_name).startswith("moved-")
    response = reader.get(f"{old}?against=a%26b&tab=x")
    assert (response.status_code, response["Location"]) == (301, f"{new}?against=a%26b&tab=x")
    assert reader.get(old)["Location"] == new


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_form_sent_to_a_moved_address_is_redirected_with_its_data(
    reader: Client, old: str, new: str
) -> None:
    response = reader.post(old, {"key": "1"})
    assert (response.status_code, response["Location"]) == (308, new)


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_address_requires_a_login(client: Client, db: None, old: str) -> None:
    assert client.get(old)["Location"].startswith("/login/")


def test_an_unknown_address_is_not_found() -> None:
    with pytest.raises(Resolver404):
        resolve("/variations/")
