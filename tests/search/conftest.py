"""Indexed copies of recorded stores."""

from tests.langgraph.conftest import threads

__all__ = ["threads"]
