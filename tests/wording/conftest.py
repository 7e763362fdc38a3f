"""Somebody who is logged in."""

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def reader(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("reader"))
    return client
