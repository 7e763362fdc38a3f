"""Notifications: who gets which message, once, and that failures wait for the next attempt."""

from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.notifications.conftest import Hook
from tests.views.forking import CREW, create_location, stored
from viewer.host.notifying import send_some
from viewer.models import (
    Checkpoint,
    Comment,
    Job,
    Level,
    Location,
    MutedRun,
    Notification,
    NotificationTarget,
    Question,
    Role,
    Run,
)
from viewer.models.accounts import BACK_OFF
from viewer.records import annotations
from viewer.records.annotations import Discussed
from viewer.records.notifications import collect, mute
from viewer.records.permissions import account_named

pytestmark = pytest.mark.django_db
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def person(name: str, location: Location, level: Level, **chosen: object) -> NotificationTarget:
    """Return the mail address of somebody who has this role on this location alone."""
    user = account_named(name)
    Role.objects.create(user=user, location=location, level=level)
    values = {"kind": "mail", "address": f"{name}@example.org", "since": timezone.now() - timedelta(hours=1)}
    return NotificationTarget.objects.create(user=user, **values | chosen)


def events_of(target: NotificationTarget) -> list[str]:
    collect()
    return sorted(target.notifications.values_list("event", flat=True))


def sent_all() -> None:
    while send_some():
        pass


@pytest.fixture
def checkpoint(tmp_path: object) -> Checkpoint:
    return stored(create_location(tmp_path / "newsroom"), CREW)  # type: ignore[operator]


def ended_job(checkpoint: Checkpoint, target: NotificationTarget, **values: object) -> Job:
    location = checkpoint.location
    ids = {"kind": Job.Kind.FORK, "location": location, "project": location.project, "run": checkpoint.run}
    ids |= {"status": Job.Status.SUCCEEDED, "ended_at": timezone.now(), "requested_by": target.user}
    return Job.objects.create(checkpoint=checkpoint, **ids | values)


def test_each_person_gets_what_they_chose_and_may_see(checkpoint: Checkpoint, tmp_path: object) -> None:
    location = checkpoint.location
    ada = person("ada", location, Level.OPERATOR)
    vera = person("vera", location, Level.VIEWER, of_all_jobs=True)
    otto = person("otto", create_location(tmp_path / "other"), Level.ADMIN, of_all_jobs=True)  # type: ignore[operator]
    quiet = person("quiet", location, Level.ADMIN, of_questions=False, of_mentions=False)
    ended_job(checkpoint, ada)
    ended_job(checkpoint, ada, status=Job.Status.FAILED, limit_hit={"tokens": 9})
    asking = ended_job(checkpoint, ada, status=Job.Status.RUNNING, ended_at=None)
    Question.objects.create(job=asking, number=1, kind="text_input", prompt="Which?")
    annotations.write(Discussed(location, checkpoint.run), vera.user, "@ada @otto @vera @quiet look")
    assert events_of(ada) == ["comment.mention", "job.ended", "limit.reached", "question.waiting"]
    assert events_of(vera) == ["job.ended", "limit.reached"], "A viewer answers no question."
    assert events_of(otto) == events_of(quiet) == []
    paths = set(ada.notifications.values_list("path", flat=True))
    mention = reverse("comment", args=[Comment.objects.get().pk])
    assert {mention, asking.questions.get().get_absolute_url()} <= paths


def test_a_muted_run_is_quiet(checkpoint: Checkpoint) -> None:
    ada = person("ada", checkpoint.location, Level.OPERATOR)
    mute(ada.user, checkpoint.run, is_muted=True)
    ended_job(checkpoint, ada)
    annotations.write(Discussed(checkpoint.location, checkpoint.run), None, "@ada")
    assert events_of(ada) == []
    mute(ada.user, checkpoint.run, is_muted=False)
    assert events_of(ada) == ["comment.mention", "job.ended"]


def test_a_mail_arrives_once_and_has_a_link_only(checkpoint: Checkpoint, settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ada = person("ada", checkpoint.location, Level.OPERATOR)
    job = ended_job(checkpoint, ada, branch="secret-branch", result="secret result")
    sent_all()
    sent_all()
    (message,) = mail.outbox
    assert message.to == ["ada@example.org"] and message.subject == "Forkline: A job has ended."
    assert f"{settings.ALLOWED_ORIGINS[0]}{job.get_absolute_url()}" in message.body
    assert "secret" not in message.body and "branch" not in message.body
    assert Notification.objects.get().sent_at


def test_of_two_senders_one_sends(checkpoint: Checkpoint) -> None:
    ended_job(checkpoint, person("ada", checkpoint.location, Level.OPERATOR))
    collect()
    collect()
    first, second = (Notification.objects.get() for _sender in range(2))
    assert first.claim() and not second.claim()


def test_a_failed_message_is_tried_again_later_and_then_given_up(
    checkpoint: Checkpoint, hook: Hook, settings: LazySettings
) -> None:
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = True
    hook.status = 500
    ada = person("ada", checkpoint.location, Level.OPERATOR, kind="webhook", address=hook.url, secret=SECRET)
    ended_job(checkpoint, ada)
    ended_job(checkpoint, ada)
    sent_all()
    assert len(hook.received) == 1, "The other message waits as well."
    for tries, seconds in enumerate(BACK_OFF, 1):
        tried = Notification.objects.get(tries=tries)
        assert tried.error == "HTTP status 500" and tried.due_at
        assert abs((tried.due_at - timezone.now()).total_seconds() - seconds) < 60
        Notification.objects.filter(pk=tried.pk).update(due_at=timezone.now())
        sent_all()
    assert Notification.objects.get(tries=len(BACK_OFF) + 1).was_given_up
    hook.status = 200
    Notification.objects.filter(tries=0).update(due_at=timezone.now())
    sent_all()
    assert Notification.objects.filter(sent_at__isnull=False).count() == 1


def test_a_deactivated_person_gets_nothing(checkpoint: Checkpoint, settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ada = person("ada", checkpoint.location, Level.OPERATOR)
    ended_job(checkpoint, ada)
    collect()
    ada.user.is_active = False
    ada.user.save()
    sent_all()
    assert not mail.outbox and Notification.objects.get().was_given_up


def test_the_page_stores_what_was_chosen_and_shows_a_secret_once(runner: Client) -> None:
    address, save = reverse("notifications"), reverse("notifications-save")
    form = {"kind": "webhook", "address": "https://example.org/hook", "of_jobs": "1"}
    shown = runner.post(save, form).content.decode()
    target = NotificationTarget.objects.get()
    assert target.secret in shown and target.secret not in runner.get(address).content.decode()
    assert target.of_jobs and not target.of_questions
    runner.post(save, form | {"of_questions": "1"})
    assert NotificationTarget.objects.get().secret == target.secret, "The same URL has the same secret."
    runner.post(save, form | {"address": "https://example.org/other"})
    assert NotificationTarget.objects.get().secret != target.secret
    for refused in ("http://example.org/", "ftp://x", "javascript:alert(1)", "https://"):
        page = runner.post(save, form | {"address": refused, "of_questions": "1"})
        assert page.status_code == 422 and f'value="{refused}"' in page.content.decode()
        assert 'id="address-error">Enter a valid URL.' in page.content.decode()
        assert NotificationTarget.objects.get().address == "https://example.org/other"
    runner.post(save, {"kind": "mail", "address": "a@example.org\nBcc: b@example.org"})
    assert not NotificationTarget.objects.filter(kind="mail").exists()
    runner.post(save, {"kind": "webhook", "address": ""})
    assert not NotificationTarget.objects.exists()


def test_a_run_is_muted_on_its_page(runner: Client, crew_run: Run) -> None:
    assert "Mute notifications" not in runner.get(crew_run.get_absolute_url()).content.decode()
    runner.post(reverse("notifications-save"), {"kind": "mail", "address": "a@example.org"})
    assert "Mute notifications" in runner.get(crew_run.get_absolute_url()).content.decode()
    runner.post(reverse("run-mute", args=[crew_run.uid]), {"mute": "1"})
    assert MutedRun.objects.get().run_key == crew_run.key
    assert str(crew_run) in runner.get(reverse("notifications")).content.decode()
    runner.post(reverse("run-mute", args=[crew_run.uid]))
    assert not MutedRun.objects.exists()
