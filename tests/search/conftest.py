"""Indexed copies of recorded stores."""

from tests.langgraph.conftest import threads
from tests.views.conftest import client, crew_location, crew_run, imported, reader, runner

__all__ = ["client", "crew_location", "crew_run", "imported", "reader", "runner", "threads"]
