"""A location in a confirmed project, and a user who can run."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.launching.refused import Refusing
from tests.terminal import Terminal
from tests.views.forking import create_location
from viewer.models import Location


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return create_location(tmp_path / "newsroom")


@pytest.fixture
def person(client: Client) -> User:
    user = User.objects.create_superuser("ada", password="secret")
    client.force_login(user)
    return user


@pytest.fixture
def refusing(client: Client, terminal: Terminal, person: User) -> Refusing:
    return Refusing(client, terminal)


@pytest.fixture(params=["fork", "resume"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)
