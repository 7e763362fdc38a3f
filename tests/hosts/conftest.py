"""Jobs and workers of several hosts."""

from tests.jobs.conftest import checkpoint, location, make_job, project, start_worker

__all__ = ["checkpoint", "location", "make_job", "project", "start_worker"]
