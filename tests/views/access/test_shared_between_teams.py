"""What two teams share, such as a project, a folder or a collection: neither changes it for the other."""

import json
import uuid
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.views.access.test_roles import client_of, person, rule_of
from tests.views.access.test_urls import FORMS, SENT, addresses_at
from tests.views.forking import CREW, create_location, stored
from viewer.models import (
    Checkpoint,
    Collection,
    Host,
    Job,
    Level,
    Location,
    Project,
    Right,
    Role,
    access_of,
)
from viewer.models.roles import restricted_to
from viewer.web.live.feeds import RowsFeed, changed, location_group


@pytest.fixture
def own(location: Location) -> Location:
    """Return the location on which people get roles."""
    return location


@pytest.fixture
def other(tmp_path: Path) -> Location:
    """Return a location of another team."""
    return create_location((tmp_path / "otherteam").resolve())


def project_of(location: Location) -> Project:
    assert location.project
    return location.project


def form_of(project: Project, **values: Any) -> dict[str, Any]:
    texts = {"folder": project.folder, "interpreter": project.interpreter, "environment_file": ""}
    return {**texts, "entry_points": ["crew:build"], **values}


def job_from(checkpoint: Checkpoint, location: Location) -> Job:
    """Return a job that writes to this location, such as a fork on another host."""
    values = {"kind": Job.Kind.FORK, "status": Job.Status.RUNNING, "branch": "beta"}
    return Job.objects.create(location=location, checkpoint=checkpoint, **values)


def test_an_admin_of_one_location_cannot_change_a_project_of_several(own: Location, other: Location) -> None:
    project, python = project_of(other), project_of(own).interpreter
    Location.objects.filter(pk=own.pk).update(project=project)
    user = person(Level.ADMIN, own)
    client = client_of(user)
    changes: dict[str, dict[str, Any]] = {
        "project": form_of(project, interpreter=python),
        "project-limits": {"day_tokens": "5"},
        "project-keys": {},
        "project-isolation": {"launcher": "process", "network": "all", "memory_mb": "500"},
        "location-pool": {"pool": ""},
    }
    for name, form in changes.items():
        assert client.post(reverse(name, args=[own.uid]), form).status_code == 403, name
    project.refresh_from_db()
    assert (project.interpreter != python, project.limits, project.isolation) == (True, {}, {})
    Role.objects.create(user=user, location=other, level=Level.ADMIN)
    assert client.post(reverse("project", args=[own.uid]), changes["project"]).status_code == 302
    project.refresh_from_db()
    assert project.interpreter == python


def test_a_project_cannot_use_the_keys_of_another_team(own: Location, other: Location) -> None:
    keys = Path(project_of(other).folder) / "keys.env"
    keys.write_text("TEA=1\n")
    Project.objects.filter(pk=project_of(other).pk).update(environment_file=str(keys))
    address, form = reverse("project", args=[own.uid]), form_of(project_of(own), environment_file=str(keys))
    assert client_of(person(Level.ADMIN, own)).post(address, form).status_code == 403
    assert Project.objects.get(pk=project_of(own).pk).environment_file == ""
    client = client_of(User.objects.create_superuser("owner"))
    assert client.post(address, form).status_code == 302


def test_a_job_from_another_teams_checkpoint_reaches_no_open_page(own: Location, other: Location) -> None:
    checkpoint, access = stored(other, CREW), access_of(person(Level.VIEWER, own))
    owner = access_of(User.objects.create_superuser("owner"))
    groups = {location_group(own.uid, access), location_group(own.uid, owner)}
    seen: dict[str, object] = {}
    changed(seen, groups)
    feed, of_owner = (RowsFeed(location_group(own.uid, one)) for one in (access, owner))
    first = feed.next_message()
    job = job_from(checkpoint, own)
    assert changed(seen, groups) == groups
    assert (feed.next_message(), str(job.pk) in (of_owner.next_message() or "")) == (None, True)
    assert str(job.pk) not in (RowsFeed(location_group(own.uid, access)).next_message() or "")
    Job.objects.update(status=Job.Status.FAILED)
    assert feed.next_message() is None and RowsFeed(location_group(own.uid, access)).next_message() == first


def test_a_branch_of_a_hidden_job_is_taken(own: Location, other: Location) -> None:
    job_from(stored(other, CREW), own)
    access = access_of(person(Level.OPERATOR, own))
    with restricted_to(lambda: access, Level.OPERATOR):
        assert not Job.objects.exists() and own.taken_branches == {"beta"}


def test_who_may_run_at_one_location_only_views_at_another(own: Location, other: Location) -> None:
    addresses, user = addresses_at(other, "otto"), person(Level.ADMIN, own)
    Role.objects.create(user=user, location=other, level=Level.VIEWER)
    client = client_of(user)
    names = [
        name
        for name in FORMS | SENT
        if f"{other.uid}" in addresses[name] or "/checkpoints/" in addresses[name]
    ]
    assert len(names) > 20
    for name in names:
        if rule_of(name).right != Right.VIEW:
            for send in (client.get, client.post):
                assert send(addresses[name]).status_code in (404, 405), name
    assert client.get(other.get_absolute_url()).status_code == 200


def test_a_path_that_several_hosts_have_names_no_location(own: Location) -> None:
    twin = Location.objects.create(path=own.path, store_kind="json", host=Host.objects.create(name="beta"))
    client = client_of(User.objects.create_superuser("owner"))
    eve = User.objects.create_user("eve")
    form = {"holder": "person", "name": "eve", "level": "1"}
    client.post(reverse("role-give"), {**form, "location": own.path})
    assert not Role.objects.filter(user=eve).exists()
    client.post(reverse("role-give"), {**form, "location": f"beta:{own.path}"})
    assert Role.objects.get(user=eve).location == twin


def test_an_imported_item_does_not_say_whether_its_location_is_here(own: Location, other: Location) -> None:
    client = client_of(person(Level.OPERATOR, own))
    client.post(reverse("collection-new"), {"name": "teas"})
    collection = Collection.objects.get()
    assert is_shown(client, collection, uuid.uuid4())
    # The public id of a location can be computed from its path.
    assert is_shown(client, collection, other.uid)


def is_shown(client: Client, collection: Collection, location: UUID) -> bool:
    """Import an item of this location, and return whether the collection then shows it."""
    item = {
        "kind": "checkpoint",
        "location": f"{location}",
        "run": "r",
        "checkpoint": "c",
        "title": f"{location}",
    }
    file = SimpleUploadedFile("items.jsonl", json.dumps(item).encode())
    client.post(reverse("collection-import", args=[collection.pk]), {"file": file})
    return f"{location}" in client.get(collection.get_absolute_url()).content.decode()
