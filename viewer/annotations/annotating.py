"""Write what a person says about a run, branch or checkpoint. Secrets in it are redacted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from viewer.importing import secrets_for
from viewer.models import Annotation, AnnotationVersion, Run
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.texts import redact_text
from viewer.seen import mark_of

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


class AnnotationChanged(Exception):
    """Somebody changed the annotation after the form was shown. ``current`` is what is stored now."""

    def __init__(self, current: Annotation) -> None:
        super().__init__()
        self.current = current


def versions_of(subject: AnnotatedObject) -> QuerySet[AnnotationVersion]:
    """Return what the annotation said before, the newest first."""
    return AnnotationVersion.objects.filter(**subject.ids).select_related("changed_by")


@transaction.atomic
def annotate(
    subject: AnnotatedObject,
    person: Any,
    *,
    name: str | None = None,
    is_starred: bool | None = None,
    labels: Iterable[str] | None = None,
    note: str | None = None,
    seen: str | None = None,
) -> Annotation:
    """Change what is given, and return the annotation. An empty one is deleted; its former texts are kept.

    ``person`` is a user, or None at a terminal. ``seen`` is the mark (viewer/seen.py) of the texts that
    the person saw. Raises AnnotationChanged if there are others now.
    """
    found = annotation_of(subject)
    if seen is not None and seen != mark_of(*found.texts):
        raise AnnotationChanged(found)
    before = AnnotationVersion(**subject.ids, changed_at=found.changed_at, changed_by=found.changed_by)
    before.name, before.label_text, before.note = former = found.texts
    known = known_secrets(secrets_for(subject.run.location.project))
    if name is not None:
        found.name = redact_text(" ".join(name.split()), known)[:200]
    if is_starred is not None:
        found.is_starred = is_starred
    if labels is not None:
        found.label_text = joined_labels(redact_text(label, known) for label in labels)
    if note is not None:
        found.note = redact_text(note.replace("\r\n", "\n").strip(), known)[:MAX_NOTE]
    if any(former) and former != found.texts:
        before.save()
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
