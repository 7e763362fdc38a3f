"""Names, stars, labels and notes of runs, branches and checkpoints."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from viewer.data_folder.locks import exclusive_transaction
from viewer.host_requests import Redact, ask
from viewer.models import Annotation, AnnotationVersion, Run
from viewer.records.audit import Action, Audited, record

# What a form showed as stored, so that a change which somebody made meanwhile is not overwritten.


# The hidden field of a form.
SEEN = "seen"


def mark_of(*values: Any) -> str:
    """Return a digest of stored values, for the form that shows them."""
    return sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def has_changed(data: Mapping[str, Any], *values: Any) -> bool:
    """Return whether the stored values differ from those that the sent form showed."""
    return SEEN in data and data[SEEN] != mark_of(*values)


# Find annotations for lists, and runs by their annotations.


@dataclass(frozen=True, slots=True)
class RunAnnotations:
    """What people wrote about a run, its branches by name, and its checkpoints by id."""

    run: Annotation | None = None
    branches: dict[str, Annotation] = field(default_factory=dict)
    checkpoints: dict[str, Annotation] = field(default_factory=dict)


def annotations_in(run: Run) -> RunAnnotations:
    """Return what was written about a run and anything in it."""
    by_branch = {one.branch: one for one in run.annotations if not one.checkpoint_id}
    checkpoints = {one.checkpoint_id: one for one in run.annotations if one.checkpoint_id}
    return RunAnnotations(by_branch.pop("", None), by_branch, checkpoints)


def annotations_of_runs(runs: Iterable[Run]) -> dict[int, Annotation]:
    """Return what was written about these runs, by their primary keys. Takes one query."""
    pks = [run.pk for run in runs]
    found = Annotation.objects.filter(branch="", checkpoint_id="").exclude(run_key="")
    keyed = {(one.location_uid, one.run_key): one for one in found}
    if not keyed:
        return {}
    rows = Run.objects.filter(pk__in=pks).order_by().values_list("pk", "location__uid", "key")
    return {pk: keyed[uid, key] for pk, uid, key in rows if (uid, key) in keyed}


def starred(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return those of these runs that have a star, themselves or on a branch."""
    return runs.filter(Exists(_own().filter(is_starred=True)))


def labelled(runs: QuerySet[Run], label: str) -> QuerySet[Run]:
    """Return those of these runs that have a label, themselves or on a branch."""
    return runs.filter(Exists(_own().filter(label_text__contains=f",{label},")))


def named(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Return those of these runs whose own name contains a text."""
    return runs.filter(Exists(_own().filter(branch="", name__icontains=text)))


def labels_in_use() -> list[str]:
    """Return every label of a run or branch, in order."""
    texts = Annotation.objects.exclude(label_text="").exclude(run_key="").values_list("label_text", flat=True)
    return sorted({label for text in texts for label in text.split(",") if label}, key=str.lower)


def _own() -> QuerySet[Annotation]:
    """Return the annotations of the run of an outer query and of its branches."""
    outer = {"location_uid": OuterRef("location__uid"), "run_key": OuterRef("key")}
    return Annotation.objects.filter(**outer)


# Write what a person says about a run, branch or checkpoint. Secrets in it are redacted.


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

    ``person`` is a user, or None at a terminal. ``seen`` is the mark (``mark_of``) of the texts that
    the person saw. Raises AnnotationChanged if there are others now.
    """
    written = [
        " ".join(name.split()) if name is not None else "",
        list(labels) if labels is not None else [],
        note.replace("\r\n", "\n").strip() if note is not None else "",
    ]
    clean_name, clean_labels, clean_note = ask(Redact(subject.run.location.project_id, written))
    changes: dict[str, Any] = {}
    if name is not None:
        changes["name"] = clean_name[:200]
    if is_starred is not None:
        changes["is_starred"] = is_starred
    if labels is not None:
        changes["label_text"] = joined_labels(clean_labels)
    if note is not None:
        changes["note"] = clean_note[:MAX_NOTE]
    return _change(subject, person, changes, seen)


@exclusive_transaction("annotations")
def _change(
    subject: AnnotatedObject, person: Any, changes: Mapping[str, Any], seen: str | None
) -> Annotation:
    """Change these columns, and keep the former texts. Raises AnnotationChanged."""
    found = annotation_of(subject)
    if seen is not None and seen != mark_of(*found.texts):
        raise AnnotationChanged(found)
    before = AnnotationVersion(**subject.ids, changed_at=found.changed_at, changed_by=found.changed_by)
    before.name, before.label_text, before.note = former = found.texts
    for column, value in changes.items():
        setattr(found, column, value)
    if any(former) and former != found.texts:
        before.save()
    found.changed_at, found.changed_by = timezone.now(), person
    if not found.is_empty:
        found.save()
    elif found.pk:
        found.delete()
    part = "checkpoint" if subject.checkpoint_id else "branch" if subject.branch else "run"
    record(Action.CHANGED, Audited.RUN, subject.run.uid, f"{', '.join(changes)} of the {part}")
    return found


def joined_labels(labels: Iterable[str]) -> str:
    """Return labels as they are stored: without commas and outer spaces, each once."""
    clean = dict.fromkeys(
        part for label in labels for one in label.split(",") if (part := " ".join(one.split())[:MAX_LABEL])
    )
    text = ",".join(list(clean)[:MAX_LABELS])
    return f",{text}," if text else ""
