"""The stored data: locations, the data imported from them, and jobs."""

from viewer.models.annotations import Annotation, AnnotationVersion, ReaderSettings, ShareLink
from viewer.models.audit import AuditEntry, AuditRetention
from viewer.models.collections import Collection, CollectionItem
from viewer.models.columns import uuid_of
from viewer.models.discussion import Comment
from viewer.models.hosts import Host, Pool
from viewer.models.invitations import Invitation, InvitationState
from viewer.models.jobs import DayLimits, Job, RecordedCode, Sweep
from viewer.models.locations import Location, PoolMember, Problem, Project
from viewer.models.notifications import MutedRun, Notification, NotificationTarget
from viewer.models.preflight import AcceptedEffect, PreflightCheck, accept_effects
from viewer.models.questions import JobEvent, Question
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
from viewer.models.tokens import ApiToken, IdempotencyKey
from viewer.models.web_servers import AttemptCount, Presence
