"""Invitations at the terminal."""

from urllib.parse import urlsplit

import pytest
from django.test import Client

from tests.terminal import Terminal
from viewer.models import Invitation, Location, Team


@pytest.fixture
def location(db: None) -> Location:
    return Location.objects.create(path="/srv/checkpoints", store_kind=Location.StoreKind.JSON)


def test_an_invitation_is_made_listed_and_revoked(terminal: Terminal, location: Location) -> None:
    Team.objects.create(name="writers")
    made = terminal.document(
        *(
            "invitations",
            "--role",
            "operator",
            "--location",
            location.path,
            "--team",
            "writers",
            "--days",
            "1",
        )
    )
    assert (made["role"], made["location"], made["team"]) == ("operator", location.path, "writers")
    assert Client().get(urlsplit(made["address"]).path).status_code == 200
    (listed,) = terminal.document("invitations")["invitations"]
    assert listed["state"] == "works" and "address" not in listed
    assert "Operator on /srv/checkpoints, member of writers" in terminal.text("invitations")
    assert terminal.document("invitations", "--revoke", made["id"])["state"] == "revoked"
    assert Client().get(urlsplit(made["address"]).path).status_code == 403
    assert terminal.refused("invitations", "--revoke", made["id"])["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--team", "none"],
        ["--location", "/srv/checkpoints"],
        ["--role", "owner"],
        ["--role", "viewer", "--location", "/srv/none"],
        ["--role", "viewer", "--days", "999"],
        ["--role", "viewer", "--revoke", "1"],
        ["--revoke", "1"],
    ],
)
def test_what_is_wrong_makes_no_invitation(
    terminal: Terminal, location: Location, arguments: list[str]
) -> None:
    assert terminal.refused("invitations", *arguments)["error"]
    assert not Invitation.objects.exists()
