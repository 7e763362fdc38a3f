"""The secrets of projects. Redacts stored data again if one becomes known, or the rules have changed."""

import errno
import logging
from collections.abc import Callable, Sequence
from typing import Any

import zstandard
from django.db import models, transaction
from django.db.models import Q
from django.utils.crypto import salted_hmac

from viewer.host.permitted import refusal_of
from viewer.host.projects import secrets_at
from viewer.host_requests import JobRefused, NotReadable
from viewer.messages.message import UserMessage, redacted_message
from viewer.models import (
    Annotation,
    AnnotationVersion,
    BucketObject,
    Checkpoint,
    Collection,
    CollectionItem,
    Comment,
    Job,
    JobEvent,
    Location,
    MutedRun,
    PreflightCheck,
    Problem,
    Project,
    Question,
    Run,
    ShareLink,
    StoredCopy,
    Sweep,
)
from viewer.records import bucket
from viewer.records.bucket import BucketAway
from viewer.records.hosts import is_here
from viewer.records.locations import is_indexed
from viewer.redaction import rules_digest
from viewer.redaction.known_secrets import (
    KnownSecrets,
    known_secrets,
    redact_text,
    redacted_key,
    redacted_name,
)
from viewer.redaction.values import redact, redacted_json, scan
from viewer.stores.protocol import compressed

logger = logging.getLogger(__name__)

# Rows of one transaction: bounds the memory, and the time that other writers wait.
BATCH = 200
# Columns of prose. All others hold ids and names, which must stay distinct after redaction.
_PROSE: dict[type[models.Model], tuple[str, ...]] = {
    Annotation: ("name", "label_text", "note"),
    AnnotationVersion: ("name", "label_text", "note"),
    Collection: ("name", "description"),
    CollectionItem: ("title", "note", "expected"),
    Comment: ("text",),
    ShareLink: ("title",),
}
# The columns that hold texts from checkpoints, or texts that people write about them.
_TEXT_COLUMNS: dict[type[models.Model], tuple[str, ...]] = {
    Annotation: ("run_key", "branch", "checkpoint_id", *_PROSE[Annotation]),
    AnnotationVersion: ("run_key", "branch", "checkpoint_id", *_PROSE[AnnotationVersion]),
    Checkpoint: (
        "source_key",
        "checkpoint_id",
        "parent_checkpoint_id",
        "run_key",
        "branch",
        "recorded_branch",
        "trigger",
        "subject",
        "engine_version",
        "entity",
        "name",
        "units",
    ),
    Collection: _PROSE[Collection],
    CollectionItem: ("run_key", "checkpoint_id", "part", *_PROSE[CollectionItem]),
    Comment: ("run_key", "checkpoint_id", "other_checkpoint_id", *_PROSE[Comment]),
    MutedRun: ("run_key",),
    StoredCopy: ("calls", "sessions"),
    Problem: ("source_key", "reason"),
    ShareLink: ("target", *_PROSE[ShareLink]),
    Run: (
        "key",
        "entity",
        "name",
        "namespace",
        "called_from",
        "head",
        "described_head",
        "usage",
        "model",
        "lineage_faults",
    ),
}
# Errors of the system that say nothing about a file.
PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
# The secrets of environment files, as of their last successful read.
_last_read: dict[str, tuple[str, ...]] = {}


def secrets_for(project: Project | None, started_with: str = "") -> tuple[str, ...]:
    """The secrets of a project's environment file. Kept in memory only.

    Raises JobRefused for a file that this machine must not open, unless it has started a run with it, and
    OSError if the system cannot read it now.
    """
    path = project.environment_file if project else ""
    if path != started_with and (refusal := refusal_of(path or None)):
        raise JobRefused(refusal)
    try:
        _last_read[path] = secrets_at(path)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in PASSING and path not in _last_read:
            # Without them, everything that is read now would be stored with its secrets.
            raise
        # The error's message is left out, since it quotes the file.
        logger.warning("the environment file of %s cannot be read", project)
    return _last_read.get(path, ())


def stored_key(location: Location, key: str) -> str:
    """The redacted key, as rows of the location store it."""
    return redacted_key(key, known_secrets(secrets_for(location.project)))


def mark_of(secrets: tuple[str, ...]) -> str:
    """A text that identifies a set of secrets, without revealing them, and the rules."""
    joined = "\0".join(secrets)
    digest = salted_hmac("known secrets", joined, algorithm="sha256").hexdigest() if secrets else ""
    return f"{digest[:40]}.{rules_digest()[:20]}"


def is_of_same_secrets(mark: str, other: str) -> bool:
    """Whether two marks differ in the rules at most."""
    return mark.partition(".")[0][:40] == other.partition(".")[0][:40]


def redact_location_again(location: Location) -> None:
    """Redact what was stored with other rules, or before the project's secrets were known.

    Requires the import lock. Works in batches. If it is interrupted, the next import starts over. Raises
    BucketAway.
    """
    secrets = secrets_for(location.project)
    mark, known = mark_of(secrets), known_secrets(secrets)
    copies = StoredCopy.objects.with_body().filter(checkpoint__location=location)
    if location.secrets_digest == mark:
        unredacted = BucketObject.objects.filter(state=BucketObject.State.UNREDACTED)
        if unredacted.exists():
            _redact_copies(copies.filter(object__in=unredacted), known)
        return
    # Of a new location, nothing is stored but what people wrote about a removed one with the same identity.
    if secrets or location.runs.exists():
        away = _redact_copies(copies, known)
        for model, fields in _TEXT_COLUMNS.items():
            redact_rows(_rows_of(location, model), fields, lambda row, name: _redacted(row, name, known))
        # These texts are shortened, so a secret may be cut. They are read again from the redacted copies.
        location.runs.update(inputs=[], is_described=False)
        if away:
            raise away
    if is_indexed(location) and not is_of_same_secrets(location.secrets_digest, mark):
        forget_index(location)
    Location.objects.filter(pk=location.pk).update(secrets_digest=mark)
    location.secrets_digest = mark


def forget_index(location: Location) -> None:
    """List the runs and checkpoints of a location again, because their redacted keys may have changed.

    Runs remain, because open pages show them, as do checkpoints with jobs or stored copies.
    """
    with transaction.atomic():
        referred = Q(stored_copy__isnull=False) | Q(jobs__isnull=False) | Q(sweeps__isnull=False)
        kept = location.checkpoints.filter(referred).order_by().values("pk")
        location.checkpoints.exclude(pk__in=kept).delete()
        location.runs.update(
            indexed_fingerprint="", listed_state="", described_head="", is_partly_listed=False
        )
        Location.objects.filter(pk=location.pk).update(listed_fingerprint="")
    location.listed_fingerprint = ""


def _redact_copies(copies: models.QuerySet[StoredCopy], known: KnownSecrets) -> BucketAway | None:
    """Redact the stored copies that contain one of the secrets. Return why some could not be read now."""
    away = None
    for pks in _batches(copies):
        for copy in copies.filter(pk__in=pks).only("data", "object"):
            try:
                _redact_copy(copy, known)
            except BucketAway as error:
                away = error
    return away


def _redact_copy(copy: StoredCopy, known: KnownSecrets) -> None:
    """Redact a stored copy. Raises BucketAway."""
    while True:
        try:
            body = zstandard.ZstdDecompressor().decompress(bucket.read(copy, to_redact=True))
        except BucketAway:
            raise
        except NotReadable:
            # Its object is missing or damaged, and may be restored.
            bucket.mark_redacted(copy, is_redacted=False)
            return
        clean = redacted_json(body, scan(body), known)
        if clean == body:
            bucket.mark_redacted(copy, is_redacted=True)
            return
        if bucket.replace_body(copy, compressed(clean)):
            return
        # Another process has replaced the body since it was read.
        copy.refresh_from_db(fields=["data", "object"])


def _rows_of(location: Location, model: type[models.Model]) -> models.QuerySet[Any]:
    if model is Comment:
        return Comment.objects.filter(Q(location_uid=location.uid) | Q(other_location_uid=location.uid))
    if model in (Annotation, AnnotationVersion, MutedRun):
        return model._default_manager.filter(location_uid=location.uid)
    if model is Collection:
        # It belongs to no location.
        return Collection.objects.all()
    if model is CollectionItem:
        # What is of no location here may have been imported.
        known = Location.objects.order_by().values("uid")
        return CollectionItem.objects.filter(Q(location_uid=location.uid) | ~Q(location_uid__in=known))
    if model is ShareLink:
        # SQLite cannot search in a list of keys.
        links = ShareLink.objects.only("locations")
        # A saved search belongs to no location, so it is always included.
        pks = [one.pk for one in links if location.pk in (one.locations or [location.pk])]
        return ShareLink.objects.filter(pk__in=pks)
    if model is StoredCopy:
        return StoredCopy.objects.filter(checkpoint__location=location)
    return model._default_manager.filter(location=location)


def redact_rows(
    rows: models.QuerySet[Any], fields: Sequence[str], redacted: Callable[[models.Model, str], Any]
) -> None:
    """Store what ``redacted`` returns for these fields of each row, where it is another value. In batches."""
    for pks in _batches(rows):
        with transaction.atomic():
            for row in rows.model.objects.filter(pk__in=pks):
                shown = {name: redacted(row, name) for name in fields}
                if changes := {name: one for name, one in shown.items() if one != getattr(row, name)}:
                    rows.model.objects.filter(pk=row.pk).update(**changes)


def _redacted(row: models.Model, name: str, known: KnownSecrets) -> Any:
    """The redacted text, message or list of a field."""
    text = getattr(row, name)
    if isinstance(text, list | UserMessage):
        return _redacted_value(text, known)
    if not text:
        return text
    if name in _PROSE.get(type(row), ()):
        shown = redact_text(text, known)
    elif not known.is_in(text.encode("utf-8", "replace")):
        # New rules do not change the names by which rows are found.
        return text
    elif name == "source_key":
        shown = redacted_key(text, known)
    else:
        shown = redacted_name(text, known)
    return shown[: getattr(row._meta.get_field(name), "max_length", None)]


def _batches(rows: models.QuerySet[Any]) -> list[list[int]]:
    pks = list(rows.order_by("pk").values_list("pk", flat=True))
    return [pks[at : at + BATCH] for at in range(0, len(pks), BATCH)]


# Redact stored jobs again.

_JOB = (
    "model",
    "usage",
    "request",
    "plan",
    "variation",
    "limit_hit",
    "stopped_before",
    "result",
    "error",
    "traceback",
    "log_end",
)


def redact_all_jobs_again() -> None:
    """Redact those of all projects of this machine whose environment files it may open."""
    for project in Project.objects.here():
        try:
            redact_jobs_again(project)
        except JobRefused as refused:
            logger.warning("the jobs of %s are not redacted again: %s", project, refused)


def redact_jobs_again(project: Project, *, for_rules: bool = True) -> None:
    """Redact its ended jobs and preflight checks again, if its secrets or the rules have changed.

    Without ``for_rules``, only if its secrets have.
    """
    if not is_here(project.host_id):
        # The host of the project does, whose key may be another one.
        return
    secrets = secrets_for(project)
    mark = mark_of(secrets)
    if project.secrets_digest == mark:
        return
    if not for_rules and is_of_same_secrets(project.secrets_digest, mark):
        return
    known = known_secrets(secrets)
    ended = Job.objects.filter(project=project, status__in=Job.ENDED)
    _redact_jobs(ended, known)
    # A run still reads the rest of its row, which its follower redacts in the end.
    _redact(JobEvent.objects.filter(job__project=project).exclude(job__in=ended), ("data",), known)
    _redact(PreflightCheck.objects.ended().filter(project=project), ("report", "error"), known)
    Project.objects.filter(pk=project.pk).update(secrets_digest=mark)
    project.secrets_digest = mark


def redact_job_again(job: Job, mark: str) -> bool:
    """Redact an ended job again, if its project's secrets are not those of this mark. Return whether it was.

    Raises JobRefused as ``secrets_for`` does.
    """
    if job.project is None or not is_here(job.project.host_id):
        return False
    secrets = secrets_for(job.project)
    if is_of_same_secrets(mark, mark_of(secrets)):
        return False
    _redact_jobs(Job.objects.filter(pk=job.pk), known_secrets(secrets))
    return True


def _redact_jobs(jobs: models.QuerySet[Job], known: KnownSecrets) -> None:
    _redact(jobs, _JOB, known)
    _redact_branches(jobs, known)
    _redact(Sweep.objects.filter(pk__in=jobs.values("sweep")), ("name",), known)
    _redact(JobEvent.objects.filter(job__in=jobs), ("data",), known)
    _redact(Question.objects.filter(job__in=jobs), ("prompt", "context", "answer"), known)


def _redact(rows: models.QuerySet[Any], fields: Sequence[str], known: KnownSecrets) -> None:
    redact_rows(rows, fields, lambda row, name: _redacted_value(getattr(row, name), known))


def _redact_branches(jobs: models.QuerySet[Job], known: KnownSecrets) -> None:
    """Redact the names of their branches like those of checkpoints, so that they stay distinct."""
    for branch in set(jobs.order_by().values_list("branch", flat=True)):
        if (shown := redacted_name(branch, known)[:300]) != branch:
            jobs.filter(branch=branch).update(branch=shown)


def _redacted_value(value: Any, known: KnownSecrets) -> Any:
    if isinstance(value, UserMessage):
        return redacted_message(value, lambda shown: redact(shown, known))
    return redact(value, known)
