"""Write what a person says about a run, branch or checkpoint. Secrets in it are redacted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from viewer.importing import secrets_for
from viewer.models import Annotation, Run
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.texts import redact_text

MAX_NOTE, MAX_LABEL, MAX_LABELS = 20_000, 40, 12


@dataclass(frozen=True, slots=True)
class AnnotatedObject:
    """What an annotation is about: a run, one of its branches, or one of its checkpoints."""

    run: Run
    branch: str = ""
    checkpoint_id: str = ""

    @property
    def ids(self) -> dict[str, Any]:
        """The columns by which its annotation is found."""
        return {
            "location_uid": self.run.location.uid,
            "run_key": "" if self.checkpoint_id else self.run.key,
            "branch": "" if self.checkpoint_id else self.branch,
            "checkpoint_id": self.checkpoint_id,
        }


def annotation_of(subject: AnnotatedObject) -> Annotation:
    """Return what was written about it; an empty annotation that is not stored if nothing was."""
    return Annotation.objects.filter(**subject.ids).first() or Annotation(**subject.ids)


@transaction.atomic
def annotate(
    subject: AnnotatedObject,
    person: Any,
    *,
    name: str | None = None,
    is_starred: bool | None = None,
    labels: Iterable[str] | None = None,
    note: str | None = None,
) -> Annotation:
    """Change what is given, and return the annotation. An empty one is deleted.

    ``person`` is a user, or None at a terminal.
    """
    found = annotation_of(subject)
    known = known_secrets(secrets_for(subject.run.location.project))
    if name is not None:
        found.name = redact_text(" ".join(name.split()), known)[:200]
    if is_starred is not None:
        found.is_starred = is_starred
    if labels is not None:
        found.label_text = joined_labels(redact_text(label, known) for label in labels)
    if note is not None:
        found.note = redact_text(note.replace("\r\n", "\n").strip(), known)[:MAX_NOTE]
    found.changed_at, found.changed_by = timezone.now(), person
    if not found.is_empty:
        found.save()
    elif found.pk:
        found.delete()
    return found


def joined_labels(labels: Iterable[str]) -> str:
    """Return labels as they are stored: without commas and outer spaces, each once."""
    clean = dict.fromkeys(
        part for label in labels for one in label.split(",") if (part := " ".join(one.split())[:MAX_LABEL])
    )
    text = ",".join(list(clean)[:MAX_LABELS])
    return f",{text}," if text else ""
