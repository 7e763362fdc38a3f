"""A location in a confirmed project, and a person who may run."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.views.forking import made_location
from viewer.models import Location


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return made_location(tmp_path / "newsroom")


@pytest.fixture
def person(client: Client) -> User:
    user = User.objects.create_superuser("ada", password="secret")
    client.force_login(user)
    return user
