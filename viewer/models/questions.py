"""The events of jobs, and the questions that runs ask people."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.models.jobs import Job
from viewer.models.roles import VisibleManager, VisibleQuerySet

# The questions that runs ask people, and the answers.


class QuestionQuerySet(VisibleQuerySet["Question"]):
    """Queries for questions."""

    def waiting(self) -> QuestionQuerySet:
        """Questions without an answer whose run still waits."""
        return self.filter(answered_at=None, withdrawn_at=None)

    def withdraw(self) -> int:
        """Withdraw the questions without an answer. Return their number."""
        return self.waiting().update(withdrawn_at=timezone.now())


class Question(models.Model):
    """A question of a running job, which waits for the answer. It is answered at most once."""

    class Kind(models.TextChoices):
        HUMAN_INPUT = "human_input", _("output review")
        HUMAN_FEEDBACK = "human_feedback", _("feedback")
        TEXT_INPUT = "text_input", _("input")
        PROGRAM_INPUT = "program_input", _("input for the project's code")
        INTERRUPT = "interrupt", _("interrupt of a graph")
        TOOL_CALL = "tool_call", _("call of a tool")

    BELONGS_TO = ("job",)

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="questions")
    # Counts from 1 in each job. The runner identifies its questions by it.
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20, choices=Kind)
    prompt = models.TextField()
    # Context for the person who answers, such as the unit, its output and the choices. Redacted.
    context = models.JSONField(default=dict, blank=True)
    asked_at = models.DateTimeField(default=timezone.now)
    answer = models.TextField(blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # When its run ended without an answer.
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = VisibleManager.from_queryset(QuestionQuerySet)()

    class Meta:
        ordering = ["asked_at"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="unique_question_number")]

    def __str__(self) -> str:
        return f"{self.number}: {self.prompt[:60]}"

    def get_absolute_url(self) -> str:
        return reverse("question", args=[self.job_id, self.number])

    @property
    def is_waiting(self) -> bool:
        return self.answered_at is None and self.withdrawn_at is None

    @property
    def choices(self) -> list[str]:
        """The outcomes from which the answer chooses one; empty if any text is an answer."""
        found = self.context.get("choices")
        return [str(one) for one in found] if isinstance(found, list) else []

    def record_answer(self, text: str, person: AbstractBaseUser | None) -> bool:
        """Store the answer. Return False if the question has one already or was withdrawn."""
        updated = (
            Question.objects.waiting()
            .filter(pk=self.pk)
            .update(answer=text, answered_at=timezone.now(), answered_by=person)
        )
        self.refresh_from_db()
        return bool(updated)


# The events of jobs.


class JobEvent(models.Model):
    """One spool event of a job, redacted. The kinds are listed in viewer/host/jobs/spool.py."""

    BELONGS_TO = ("job",)

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    objects = VisibleManager.from_queryset(VisibleQuerySet)()

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="unique_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
