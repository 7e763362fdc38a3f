"""What is stored: where checkpoints stand, what was read of them, and the jobs that ran."""

from viewer.models.jobs import Job, JobEvent
from viewer.models.locations import Location, Problem, Project
from viewer.models.runs import Checkpoint, CheckpointBody, Run, run_uid

__all__ = [
    "Checkpoint",
    "CheckpointBody",
    "Job",
    "JobEvent",
    "Location",
    "Problem",
    "Project",
    "Run",
    "run_uid",
]
