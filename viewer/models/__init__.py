"""The stored data: locations, the data imported from them, and jobs."""

from viewer.models.annotations import Annotation, AnnotationVersion, Collection, CollectionItem, Comment
from viewer.models.audit import AuditEntry, AuditRetention
from viewer.models.columns import uuid_of
from viewer.models.hosts import AttemptCount, Host, Pool, Presence
from viewer.models.jobs import DayLimits, Job, JobEvent, Question, RecordedCode, Sweep
from viewer.models.locations import Location, PoolMember, Problem, Project
from viewer.models.notifications import MutedRun, Notification, NotificationTarget
from viewer.models.preflight import AcceptedEffect, PreflightCheck, accept_effects
from viewer.models.reader_settings import ReaderSettings
from viewer.models.roles import Access, Level, Right, Role, Team, access_of
from viewer.models.runs import BucketObject, Checkpoint, Run, StoredCopy, is_scratch_key, run_uid
from viewer.models.search import (
    SavedSearch,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
    SearchFacet,
)
from viewer.models.tokens import ApiToken, IdempotencyKey, Invitation, InvitationState, ShareLink
