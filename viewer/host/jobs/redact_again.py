"""Redacts stored jobs again when the secrets of their project change."""

import logging
from collections.abc import Sequence
from typing import Any

from django.db import models

from viewer.host.locations.project_secrets import mark_of, redact_rows, secrets_for
from viewer.host_requests import JobRefused
from viewer.messages.message import UserMessage, redacted_message
from viewer.models import Job, JobEvent, PreflightCheck, Project, Question, Sweep
from viewer.records.hosts import is_here
from viewer.redaction.known_secrets import KnownSecrets, known_secrets, redacted_name
from viewer.redaction.values import redact

logger = logging.getLogger(__name__)

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
_SWEEP = ("name",)
_EVENT = ("data",)
_QUESTION = ("prompt", "context", "answer")
_PREFLIGHT = ("report", "error")


def redact_all_jobs_again() -> None:
    """Redact those of all projects of this machine whose environment files it may open."""
    for project in Project.objects.here():
        try:
            redact_jobs_again(project)
        except JobRefused as refused:
            logger.warning("the jobs of %s are not redacted again: %s", project, refused)


def redact_jobs_again(project: Project) -> None:
    """Redact the current values of the project's environment file in its ended jobs and preflight checks."""
    if not is_here(project.host_id):
        # The host of the project does, whose key may be another one.
        return
    secrets = secrets_for(project)
    mark = mark_of(secrets)
    if project.secrets_digest == mark:
        return
    if secrets:
        known = known_secrets(secrets)
        ended = Job.objects.filter(project=project, status__in=Job.ENDED)
        _redact(ended, _JOB, known)
        _redact_branches(ended, known)
        _redact(Sweep.objects.filter(pk__in=ended.values("sweep")), _SWEEP, known)
        _redact(JobEvent.objects.filter(job__in=ended), _EVENT, known)
        _redact(Question.objects.filter(job__in=ended), _QUESTION, known)
        _redact(PreflightCheck.objects.ended().filter(project=project), _PREFLIGHT, known)
    Project.objects.filter(pk=project.pk).update(secrets_digest=mark)
    project.secrets_digest = mark


def _redact(rows: models.QuerySet[Any], fields: Sequence[str], known: KnownSecrets) -> None:
    redact_rows(rows, fields, lambda row, name: _redacted(getattr(row, name), known))


def _redact_branches(jobs: models.QuerySet[Job], known: KnownSecrets) -> None:
    """Redact the names of their branches like those of checkpoints, so that they stay distinct."""
    for branch in set(jobs.order_by().values_list("branch", flat=True)):
        if (shown := redacted_name(branch, known)[:300]) != branch:
            jobs.filter(branch=branch).update(branch=shown)


def _redacted(value: Any, known: KnownSecrets) -> Any:
    if isinstance(value, UserMessage):
        return redacted_message(value, lambda shown: redact(shown, known))
    return redact(value, known)
