"""Which messages are due, as the rows have it. What happened was stored before, and waits for no message."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Model, Q
from django.urls import reverse
from django.utils import timezone

from viewer.models import (
    Comment,
    Job,
    MutedRun,
    Notification,
    NotificationTarget,
    Question,
    Right,
    Run,
    access_of,
)
from viewer.models.roles import visible_rows
from viewer.records.annotations import subject_of

Event = Notification.Event
# How long after something happened its messages are still begun, such as after the worker was away.
MAX_AGE = timedelta(days=1)
# Messages are deleted after this time, which is longer than any of them is tried.
KEPT = timedelta(days=30)
# Messages that are begun at once for one target.
BATCH = 100

# What the key of a message names, and the right on it that the person needs.
SUBJECTS: dict[str, tuple[type[Model], Right]] = {
    "question": (Question, Right.ANSWER),
    "job": (Job, Right.VIEW),
    "comment": (Comment, Right.VIEW),
}


def collect() -> None:
    """Store the messages that are due and not stored yet, each once for each target."""
    for target in NotificationTarget.objects.filter(user__is_active=True).select_related("user"):
        since = max(target.since, timezone.now() - MAX_AGE)
        known = set(target.notifications.values_list("key", flat=True))
        muted = set(MutedRun.objects.filter(user=target.user).values_list("location_uid", "run_key"))
        due = (*_questions(target, since), *_jobs(target, since), *_mentions(target, since))
        found = [message for message, run in due if message.key not in known and run not in muted]
        # Another worker may have stored them meanwhile.
        Notification.objects.bulk_create(found[:BATCH], ignore_conflicts=True)
    Notification.objects.filter(created_at__lt=timezone.now() - KEPT).delete()


def may_be_sent(message: Notification) -> bool:
    """Whether the person may see now what a stored message is about. They may have lost the right since."""
    kind, _blank, key = message.key.partition(" ")
    model, right = SUBJECTS[kind]
    rows = visible_rows(model, access_of(message.target.user), right.level)
    return bool(rows.filter(pk=key).exists())


# What has happened since a time and the person may see now, each with its run.


RunIds = tuple[UUID, str] | None


def _questions(target: NotificationTarget, since: datetime) -> Iterator[tuple[Notification, RunIds]]:
    if not target.of_questions:
        return
    visible = visible_rows(Question, access_of(target.user), Right.ANSWER.level)
    for question in visible.waiting().filter(asked_at__gt=since).select_related("job__run__location"):
        key, path = f"question {question.pk}", question.get_absolute_url()
        yield Notification(target=target, event=Event.QUESTION, key=key, path=path), _run_of(question.job)


def _jobs(target: NotificationTarget, since: datetime) -> Iterator[tuple[Notification, RunIds]]:
    if not (target.of_jobs or target.of_limits):
        return
    jobs = visible_rows(Job, access_of(target.user)).ended().filter(ended_at__gt=since).order_by("ended_at")
    if not target.of_all_jobs:
        jobs = jobs.filter(requested_by=target.user)
    for job in jobs.select_related("run__location"):
        event = Event.LIMIT if job.limit_hit else Event.JOB
        if target.of_limits if event == Event.LIMIT else target.of_jobs:
            key, path = f"job {job.pk}", job.get_absolute_url()
            yield Notification(target=target, event=event, key=key, path=path), _run_of(job)


def _mentions(target: NotificationTarget, since: datetime) -> Iterator[tuple[Notification, RunIds]]:
    if not target.of_mentions:
        return
    recent = Q(written_at__gt=since) | Q(edited_at__gt=since)
    comments = visible_rows(Comment, access_of(target.user)).filter(recent, mentioned=target.user)
    for comment in comments.exclude(written_by=target.user).select_related("question__job__run__location"):
        if subject_of(comment):
            key, path = f"comment {comment.pk}", reverse("comment", args=[comment.pk])
            run = (
                _run_of(comment.question.job) if comment.question else (comment.location_uid, comment.run_key)
            )
            yield Notification(target=target, event=Event.MENTION, key=key, path=path), run


def _run_of(job: Job) -> RunIds:
    return (job.run.location.uid, job.run.key) if job.run else None


# Muting a run.


def is_muted(user: User, run: Run) -> bool:
    """Whether a person is not notified of a run."""
    return MutedRun.objects.filter(user=user, location_uid=run.location.uid, run_key=run.key).exists()


def mute(user: User, run: Run, *, is_muted: bool) -> None:
    """Mute a run for a person, or notify them of it again."""
    ids: dict[str, Any] = {"user": user, "location_uid": run.location.uid, "run_key": run.key}
    if is_muted:
        MutedRun.objects.get_or_create(**ids)
    else:
        MutedRun.objects.filter(**ids).delete()
