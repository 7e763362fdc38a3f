"""Share links to objects of a recorded store, and visitors without a login."""

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from tests.views.conftest import location
from viewer.models import Run, ShareLink
from viewer.presentation.share_links import Subject, find_shared, make_link
from viewer.records.accounts import teammate

__all__ = ["location"]

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
Share = Callable[..., str]


def share(kind: str, target: str, *, unfurls: bool = False, days: int = 7, maker: str = "maker") -> str:
    """Make a link and return its address."""
    shared = find_shared(Subject(ShareLink.Kind(kind), target))
    assert shared, target
    _link, token = make_link(shared, teammate(maker, "run"), days=days, unfurls=unfurls)
    return reverse("shared", args=[token])


def token_of(address: str) -> str:
    return address.split("/")[2]


@pytest.fixture
def stranger() -> Client:
    """Return the browser of somebody without a login."""
    return Client(headers={"User-Agent": BROWSER})


@pytest.fixture
def run_link(crew_run: Run) -> str:
    return share("run", str(crew_run.uid))


@pytest.fixture
def checkpoint_link(crew_run: Run) -> str:
    return share("checkpoint", f"{crew_run.uid}/{crew_run.checkpoints.earliest('row').checkpoint_id}")


@pytest.fixture
def comparison_link(crew_run: Run) -> str:
    branches = crew_run.branch_names
    return share(
        "comparison",
        urlencode([("a", f"{crew_run.uid}@{branches[0]}"), ("b", f"{crew_run.uid}@{branches[1]}")]),
    )
