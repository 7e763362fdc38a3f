"""Jobs and workers of several hosts."""

from tests.jobs.conftest import checkpoint, location, make_job, project, start_worker
from tests.langgraph.postgresql.conftest import server

__all__ = ["checkpoint", "location", "make_job", "project", "server", "start_worker"]
