"""The stored data: locations, the data imported from them, and jobs."""

from viewer.models.annotations import Annotation
from viewer.models.effects import AcceptedEffect, accept_effects
from viewer.models.ids import uuid_of
from viewer.models.job_events import JobEvent
from viewer.models.jobs import Job
from viewer.models.limits import DayLimits
from viewer.models.locations import Location, Problem, Project
from viewer.models.preflight import PreflightCheck
from viewer.models.questions import Question
from viewer.models.reader_settings import ReaderSettings
from viewer.models.runs import Checkpoint, CheckpointBody, Run, run_uid
from viewer.models.search import (
    SavedSearch,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
    SearchFacet,
)
from viewer.models.share_links import ShareLink
from viewer.models.sweeps import Sweep

__all__ = [
    "AcceptedEffect",
    "Annotation",
    "Checkpoint",
    "CheckpointBody",
    "DayLimits",
    "Job",
    "JobEvent",
    "Location",
    "PreflightCheck",
    "Problem",
    "Project",
    "Question",
    "ReaderSettings",
    "Run",
    "SavedSearch",
    "SearchEntry",
    "SearchFacet",
    "SearchedCheckpoint",
    "SearchedLocation",
    "SearchedRun",
    "ShareLink",
    "Sweep",
    "accept_effects",
    "run_uid",
    "uuid_of",
]
