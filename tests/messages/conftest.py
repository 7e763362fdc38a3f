"""A logged-in client."""

import pytest
from django.test import Client

from viewer.access.login_links import teammate


@pytest.fixture
def reader(client: Client, db: None) -> Client:
    client.force_login(teammate("reader", "run"))
    return client
