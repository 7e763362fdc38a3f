"""Teams and roles at the terminal: who may do what, and why."""

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from tests.terminal import Terminal
from viewer.models import AuditEntry, Level, Location, Team, access_of

pytestmark = pytest.mark.postgresql


@pytest.fixture
def location(db: None) -> Location:
    return Location.objects.create(path="/srv/checkpoints", store_kind=Location.StoreKind.JSON)


def roles(terminal: Terminal, *arguments: object) -> set[tuple[str, str, str | None, str | None]]:
    found = terminal.document("roles", *arguments)["roles"]
    return {(one["person"], one["level"], one["location"], one["team"]) for one in found}


def test_roles_are_given_listed_and_taken(
    terminal: Terminal, location: Location, settings: LazySettings
) -> None:
    settings.AUDIT = True
    assert terminal.text("roles").strip() == "Nobody has a role."
    assert roles(terminal, "--person", "eve", "--give", "viewer") == {("eve", "viewer", None, None)}
    assert roles(terminal, "--person", "eve", "--give", "operator") == {("eve", "operator", None, None)}
    roles(terminal, "--team", "writers", "--add", "ada")
    found = roles(terminal, "--team", "writers", "--give", "admin", "--location", location.path)
    assert found == {("eve", "operator", None, None), ("ada", "admin", location.path, "writers")}
    ada = access_of(User.objects.get(username="ada"))
    assert (ada.everywhere, ada.level_at(location.pk)) == (0, Level.ADMIN)
    assert "as a member of writers" in terminal.text("roles")
    assert roles(terminal, "--person", "eve", "--take") == {("ada", "admin", location.path, "writers")}
    assert roles(terminal, "--team", "writers", "--remove", "ada") == set()
    roles(terminal, "--team", "writers", "--delete")
    assert not Team.objects.exists() and User.objects.count() == 2
    details = list(AuditEntry.objects.order_by("pk").values_list("kind", "detail"))
    assert ("user", "eve: operator on all locations") in details
    assert ("team", f"writers: admin on {location.path}") in details
    assert ("user", "eve: nothing on all locations") in details and ("team", "writers") in details


@pytest.mark.parametrize(
    "arguments",
    [
        ["--give", "viewer"],
        ["--take"],
        ["--person", "eve", "--take"],
        ["--person", "eve", "--give", "owner"],
        ["--person", "eve", "--add", "ada"],
        ["--person", "eve", "--location", "/srv/checkpoints"],
        ["--person", "eve", "--give", "viewer", "--location", "/srv/none"],
        ["--team", "none", "--remove", "ada"],
        ["--team", "none", "--delete"],
        ["--person", "eve", "--team", "writers", "--give", "viewer"],
        ["--person", "a b", "--give", "viewer"],
    ],
)
def test_what_is_wrong_changes_nothing(terminal: Terminal, location: Location, arguments: list[str]) -> None:
    assert terminal.refused("roles", *arguments)["error"]
    assert roles(terminal) == set()
    assert not User.objects.exists() and not Team.objects.exists()


def test_a_deactivated_account_gets_no_role(terminal: Terminal, db: None) -> None:
    User.objects.create_user("eve", is_active=False)
    assert "can no longer log in" in terminal.refused("roles", "--person", "eve", "--give", "viewer")["error"]


def test_quotas_are_set_shown_and_taken(terminal: Terminal, db: None, settings: LazySettings) -> None:
    settings.AUDIT = True
    quotas = ["--quota", "runs=5", "--quota", "cost=12.5"]
    found = terminal.document("roles", "--team", "writers", "--add", "ada")["teams"]
    assert found == [{"name": "writers", "members": ["ada"], "quotas": {}, "used": {}}]
    (team,) = terminal.document("roles", "--team", "writers", *quotas)["teams"]
    assert (team["quotas"], team["used"]) == ({"runs": 5, "cost": 12.5}, {"runs": 0, "cost": 0})
    assert "writers: 0 of 5 runs at once, $0.00 of $12.50" in terminal.text("roles")
    assert AuditEntry.objects.filter(detail="writers: quotas runs 5, cost 12.5").exists()
    (team,) = terminal.document("roles", "--team", "writers", "--quota", "runs=")["teams"]
    assert team["quotas"] == {"cost": 12.5}
    for wrong in ("steps=3", "runs=x", "runs=0", "runs", "=3"):
        assert terminal.refused("roles", "--team", "writers", "--quota", wrong)["error"]
    assert terminal.refused("roles", "--team", "none", *quotas)["error"]
