"""The stored data: locations, the data imported from them, and jobs."""

from viewer.models.accounts import (
    ApiToken,
    IdempotencyKey,
    Invitation,
    InvitationState,
    MutedRun,
    Notification,
    NotificationTarget,
    ReaderSettings,
    SavedSearch,
    ShareLink,
)
from viewer.models.annotations import Annotation, AnnotationVersion, Collection, CollectionItem, Comment
from viewer.models.audit import AuditEntry, AuditRetention
from viewer.models.hosts import AttemptCount, Host, Pool, Presence
from viewer.models.jobs import DayLimits, Job, JobEvent, Question, RecordedCode, Sweep
from viewer.models.locations import Location, PoolMember, Problem, Project
from viewer.models.preflight import AcceptedEffect, PreflightCheck, accept_effects
from viewer.models.roles import Access, Level, Right, Role, Team, access_of
from viewer.models.rows import uuid_of
from viewer.models.runs import (
    BucketObject,
    Checkpoint,
    Run,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
    SearchFacet,
    StoredCopy,
    is_scratch_key,
    run_uid,
)
