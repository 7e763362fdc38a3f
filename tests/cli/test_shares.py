"""Share links at the terminal: the same objects and checks as on the page."""

import json
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from tests.real_stores import copy_of
from viewer.models import Checkpoint, Job, ShareLink

pytestmark = pytest.mark.django_db
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def shares(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("checkpoints", "shares", *arguments, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    call_command("import_checkpoints", str(copy_of("1.15.30/json", tmp_path)), stdout=StringIO())
    return Checkpoint.objects.select_related("run", "location").earliest("row")


def opened(address: str) -> int:
    """The status of what somebody without a login gets."""
    stranger = Client(headers={"User-Agent": BROWSER})
    return stranger.get(urlsplit(address).path).status_code


def named(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"


def test_a_link_is_made_listed_and_revoked(checkpoint: Checkpoint) -> None:
    made = shares("--make", named(checkpoint), "--days", "30")
    assert made["kind"] == "checkpoint" and made["state"] == "works" and opened(made["address"]) == 200
    (listed,) = shares()["links"]
    assert listed["id"] == made["id"] and "address" not in listed
    token = made["address"].rstrip("/").rpartition("/")[2]
    assert token not in json.dumps(listed)
    link = ShareLink.objects.get()
    assert (link.expires_at - link.created_at).days == 30 and not link.unfurls
    assert shares("--revoke", str(made["id"]))["state"] == "revoked"
    assert opened(made["address"]) == 404
    assert shares()["links"][0]["state"] == "revoked"


def test_every_kind_of_object_is_named_by_its_address(checkpoint: Checkpoint) -> None:
    run = checkpoint.run
    job = Job.objects.create(kind="fork", location=checkpoint.location, checkpoint=checkpoint)
    first, second = (f"{run.uid}@{branch}" for branch in run.branch_names)
    addresses = {
        "run": run.get_absolute_url(),
        "checkpoint": f"http://localhost:8000{checkpoint.get_absolute_url()}",
        "comparison": reverse("compare", query={"a": first, "b": second}),
        "search": reverse("search", query={"q": "tea"}),
        "job": job.get_absolute_url(),
    }
    assert {kind: shares("--make", address)["kind"] for kind, address in addresses.items()} == {
        kind: kind for kind in addresses
    }
    assert shares("--make", addresses["checkpoint"], "--run")["kind"] == "run"


def test_a_dry_run_makes_nothing(checkpoint: Checkpoint) -> None:
    found = shares("--make", named(checkpoint), "--run", "--dry-run")
    assert found["kind"] == "run" and "/shares/preview/" in found["preview"]
    assert not ShareLink.objects.exists()


@pytest.mark.parametrize(
    "target",
    [
        *("/jobs/", "/nowhere/", "x", "http://[", "/runs/x/", "/search/", "/compare/?a=b"),
        *("/search/?" + "q=a&" * 101, "/compare/?" + "a=1&" * 101, "/runs/x/?" + "at=1&" * 101),
    ],
)
def test_what_cannot_be_shared_is_refused(checkpoint: Checkpoint, target: str) -> None:
    with pytest.raises(CommandError, match="no such object"):
        shares("--make", target)
    assert not ShareLink.objects.exists()


def test_nothing_is_shared_where_sharing_is_off(checkpoint: Checkpoint, settings: Any) -> None:
    link = shares("--make", named(checkpoint))
    settings.SHARING = False
    with pytest.raises(CommandError, match="turned off"):
        shares("--make", named(checkpoint))
    assert shares()["links"][0]["state"] == "dead" and opened(link["address"]) == 404
    assert shares("--revoke", str(link["id"]))["state"] == "revoked"


def test_a_link_ends_with_the_right_of_its_maker(checkpoint: Checkpoint) -> None:
    link = shares("--make", named(checkpoint))
    User.objects.update(is_active=False)
    assert opened(link["address"]) == 404 and shares()["links"][0]["state"] == "dead"


def test_an_unknown_link_is_refused() -> None:
    with pytest.raises(CommandError, match="no share link"):
        shares("--revoke", "7")


def test_the_views_of_a_link_are_counted_in_words(checkpoint: Checkpoint) -> None:
    shares("--make", named(checkpoint))
    for views, text in ((1, "  1 view  "), (2, "  2 views  ")):
        ShareLink.objects.update(views=views)
        out = StringIO()
        call_command("checkpoints", "shares", stdout=out)
        assert text in out.getvalue()
