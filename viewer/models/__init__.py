"""The stored data: locations, the data imported from them, and jobs."""

from viewer.models.annotations import Annotation, AnnotationVersion
from viewer.models.ids import uuid_of
from viewer.models.jobs.effects import AcceptedEffect, accept_effects
from viewer.models.jobs.events import JobEvent
from viewer.models.jobs.job import Job
from viewer.models.jobs.limits import DayLimits
from viewer.models.jobs.preflight import PreflightCheck
from viewer.models.jobs.questions import Question
from viewer.models.jobs.sweeps import Sweep
from viewer.models.locations import Location, Problem, Project
from viewer.models.reader_settings import ReaderSettings
from viewer.models.runs import Checkpoint, Run, run_uid
from viewer.models.search import (
    SavedSearch,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
    SearchFacet,
)
from viewer.models.share_links import ShareLink
from viewer.models.stored_copies import StoredCopy

__all__ = [
    "AcceptedEffect",
    "Annotation",
    "AnnotationVersion",
    "Checkpoint",
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
    "StoredCopy",
    "Sweep",
    "accept_effects",
    "run_uid",
    "uuid_of",
]
