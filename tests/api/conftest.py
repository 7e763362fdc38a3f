"""Programs with a token, and the addresses of the HTTP interface with the ids of existing objects."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.views.conftest import checkpoint, entity, location
from viewer.models import Checkpoint, Job, Level, Location, Question, Role, Sweep
from viewer.records.accounts import make_token
from viewer.records.permissions import account_named
from viewer.web.api.starting import SERVED

__all__ = ["checkpoint", "entity", "location"]
Program = Callable[..., Client]


def with_role(name: str, level: Level, location: Location | None = None) -> User:
    """Return a user with only this role."""
    user = account_named(name)
    user.roles.all().delete()
    Role.objects.create(user=user, level=level, location=location)
    return user


def program_of(user: User, level: Level = Level.ADMIN, locations: list[Location] | None = None) -> Client:
    """Return a client with a new token of a user."""
    _token, text = make_token(user, "ci", level, locations)
    return with_token(text)


def with_token(text: str) -> Client:
    """Return a client that sends this token."""
    return Client(headers={"Authorization": f"Bearer {text}"}, raise_request_exception=False)


@pytest.fixture
def viewer(location: Location) -> Client:
    """Return a program that may view everything."""
    return program_of(with_role("vera", Level.VIEWER), Level.VIEWER)


@pytest.fixture
def operator(location: Location) -> Client:
    """Return a program that may run everywhere."""
    return program_of(with_role("olga", Level.OPERATOR), Level.OPERATOR)


def api_addresses(checkpoint: Checkpoint) -> dict[str, str]:
    """Return each address with the ids of existing objects."""
    location = checkpoint.location
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=location, project=location.project, checkpoint=checkpoint
    )
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    run = [checkpoint.run.uid]
    of: dict[str, list[Any]] = {
        "api-location": [location.uid],
        "api-runs": [location.uid],
        "api-run": run,
        "api-checkpoints": run,
        "api-export": run,
        "api-checkpoint": [checkpoint.pk],
        **{name: [job.pk] for name in ("api-job", "api-job-events", "api-job-outcome")},
        "api-sweep": [Sweep.objects.create(name="tone", checkpoint=checkpoint).pk],
        **{f"api-{name}": [checkpoint.pk] for name in ("fork", "resume", "publish", "sweep-new", "note")},
        "api-replay": [checkpoint.pk, "0123456789ab"],
        "api-cancel": [job.pk],
        "api-answer": [job.pk, 1],
    }
    names = ["api-openapi", "api-locations", "api-compare", "api-search", "api-jobs", "api-questions", *of]
    names += [f"api-command-{name}" for name in SERVED]
    found = {name: reverse(name, args=of.get(name, [])) for name in names}
    found["api-compare"] += f"?a={checkpoint.pk}&b={checkpoint.pk}"
    found["api-search"] += "?q=research"
    return found
