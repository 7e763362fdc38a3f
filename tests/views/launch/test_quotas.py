"""A form says before the start which quota of which team does not allow it, and nothing starts."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.forking import filled, is_startable, page
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Team
from viewer.records.annotations import mark_of

pytestmark = pytest.mark.postgresql

OVER = "Runs at once of the team writers: 1 of 1. The next one can start when one of them has ended."


@pytest.fixture
def team(person: User, location: Location) -> Team:
    """Return a team whose only run is under way."""
    team = Team.objects.create(name="writers", quotas={"runs": 1})
    team.members.add(person)
    Job.objects.create(kind="fork", location=location, branch="one", status="running", requested_by=person)
    return team


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_a_form_shows_the_quota_that_is_used_up(
    client: Client, checkpoint: Checkpoint, check: PreflightCheck, team: Team, kind: str
) -> None:
    form = filled(client, checkpoint, kind)
    text = client.get(page(checkpoint, kind)).content.decode()
    assert OVER in text and not is_startable(text)
    assert OVER in client.post(page(checkpoint, kind), form).content.decode()
    assert Job.objects.count() == 1
    Job.objects.update(status="succeeded")
    assert client.post(page(checkpoint, kind), form).status_code == 302


def test_quotas_are_set_on_the_page_of_teams(client: Client, team: Team) -> None:
    address, seen = reverse("team-quotas", args=[team.pk]), mark_of(team.quotas)
    assert "1 of 1 run at once" in client.get(reverse("roles")).content.decode()
    form = {"runs": "3", "tokens": "50,000", "cost": "2.50", "seen": seen}
    shown = client.post(address, form, follow=True).content.decode()
    team.refresh_from_db()
    assert team.quotas == {"runs": 3, "tokens": 50000, "cost": 2.5}
    assert "1 of 3 runs at once, 0 of 50,000 tokens, $0.00 of $2.50" in shown
    # Somebody has changed them since.
    assert "Somebody changed these quotas." in client.post(address, form, follow=True).content.decode()
    for wrong in ({"runs": "0"}, {"runs": "-1"}, {"runs": "1.5"}, {"cost": "nan"}, {"tokens": "9" * 40}):
        client.post(address, wrong)
        team.refresh_from_db()
        assert team.quotas["runs"] == 3
    client.post(address, {"runs": "", "cost": "0.5"})
    team.refresh_from_db()
    assert team.quotas == {"cost": 0.5}
