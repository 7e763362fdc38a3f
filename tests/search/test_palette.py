"""The command palette leads to pages and objects, and names only what its user may do."""

from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client

from viewer.models import Job, Location, Run, SavedSearch


def shown(client: Client, query: str = "") -> str:
    answer = client.get("/palette/", {"q": query})
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_it_leads_to_every_page(reader: Client, db: None) -> None:
    for address in ("/", "/locations/", "/jobs/", "/inbox/", "/search/", "/settings/", "/data/"):
        assert f'href="{address}"' in shown(reader)
    assert "/jobs/" in shown(reader, "jo") and "/inbox/" not in shown(reader, "jo")


def test_it_leads_to_locations_runs_jobs_and_checkpoints(reader: Client, crew_run: Run) -> None:
    location, checkpoint = crew_run.location, crew_run.checkpoints.latest("row")
    job = Job.objects.create(kind=Job.Kind.FORK, location=location, branch="shorter-tone")
    assert location.get_absolute_url() in shown(reader, location.path[-8:])
    assert crew_run.get_absolute_url() in shown(reader, crew_run.key[:8])
    assert crew_run.get_absolute_url() in shown(reader, crew_run.name)
    assert job.get_absolute_url() in shown(reader, "shorter")
    assert job.get_absolute_url() in shown(reader, str(job.pk)[:13])
    assert checkpoint.get_absolute_url() in shown(reader, checkpoint.checkpoint_id[:-2])


def test_it_searches_for_anything_else(reader: Client, db: None) -> None:
    assert 'href="/search/?q=green+tea"' in shown(reader, "green tea")


def test_only_who_can_run_is_offered_new_runs(
    reader: Client, crew_location: Location, django_user_model: type[User]
) -> None:
    assert "New run in" not in shown(reader)
    reader.force_login(django_user_model.objects.create_superuser("owner"))
    assert "New run in json" in shown(reader)
    for query, address in (("prune", "prune"), ("project json", "project"), ("run json", "run")):
        assert f'href="{crew_location.get_absolute_url()}{address}/"' in shown(reader, query)
    assert "/jobs/?show=limits#day-limits" in shown(reader, "daily limits")
    assert "/settings/" in shown(reader, "theme")


def test_saved_searches_are_their_users(reader: Client, db: None) -> None:
    SavedSearch.objects.create(user=User.objects.get(username="reader"), name="mine", query="q=tea")
    SavedSearch.objects.create(user=User.objects.create_user("other"), name="theirs", query="q=tea")
    assert "mine" in shown(reader) and "theirs" not in shown(reader)


@pytest.mark.parametrize("query", ["\0", "%", "_" * 5000, "<script>", "a\ud800", "'\"", "\U0010ffff"])
def test_odd_texts_are_no_errors(reader: Client, crew_location: Location, query: str) -> None:
    from viewer.web.views.search import commands_for

    assert commands_for(query, User(is_superuser=True))
    assert "<script>" not in reader.get("/palette/?q=%3Cscript%3E").content.decode()
