"""A PostgreSQL server for the services."""

from tests.langgraph.postgresql.conftest import server

__all__ = ["server"]
