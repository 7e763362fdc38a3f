"""What people write: names, stars, labels and notes, and discussions of comments."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.locks import exclusive_transaction
from viewer.host_requests import Redact, ask
from viewer.models import (
    Annotation,
    AnnotationVersion,
    Checkpoint,
    Comment,
    Location,
    Question,
    Run,
    access_of,
)
from viewer.models.annotations import CommentQuerySet
from viewer.models.roles import visible_rows
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
    """Return what was written about a run and anything in it. Cached on the instance."""
    found: RunAnnotations | None = getattr(run, "_annotations", None)
    if found is None:
        of_run = Q(run_key=run.key) | ~Q(checkpoint_id="")
        rows = list(Annotation.objects.filter(of_run, location_uid=run.location.uid))
        by_branch = {one.branch: one for one in rows if not one.checkpoint_id}
        checkpoints = {one.checkpoint_id: one for one in rows if one.checkpoint_id}
        found = RunAnnotations(by_branch.pop("", None), by_branch, checkpoints)
        run._annotations = found  # type: ignore[attr-defined]
    return found


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


# Discussions: comments on runs, checkpoints, comparisons and questions, and who they mention.

# Characters of a comment, replies of a discussion, and people whom one comment mentions.
MAX_COMMENT, MAX_REPLIES, MAX_MENTIONED = 10_000, 200, 20
# A name as Django's accounts have it, after what cannot be a part of an address.
MENTION = re.compile(r"(?<![\w.@+/-])@([\w.@+-]{1,150})")


class NotWritten(Exception):
    """A comment that was not stored, with the reason."""


@dataclass(frozen=True, slots=True)
class Discussed:
    """What comments are about: a run, one of its checkpoints, or a question, whose job may have no run.

    With ``other``, they are about the comparison of two checkpoints.
    """

    location: Location
    run: Run | None = None
    checkpoint_id: str = ""
    question: Question | None = None
    other: "Discussed | None" = None

    @property
    def ids(self) -> dict[str, Any]:
        """The columns of its comments."""
        return {
            "location_uid": self.location.uid,
            "run_key": self.run.key if self.run and not self.question else "",
            "checkpoint_id": self.checkpoint_id,
            "question": self.question,
            "other_location_uid": self.other.location.uid if self.other else None,
            "other_checkpoint_id": self.other.checkpoint_id if self.other else "",
        }

    @property
    def checkpoint(self) -> Checkpoint:
        """The row of its checkpoint. Raises Checkpoint.DoesNotExist."""
        assert self.run
        return self.run.checkpoints.get(checkpoint_id=self.checkpoint_id)

    @property
    def locations(self) -> list[Location]:
        """The locations that somebody has to see."""
        others = self.other.locations if self.other else []
        return [self.location, *(one for one in others if one.pk != self.location.pk)]

    def is_visible_to(self, person: User) -> bool:
        """Whether a person may see it."""
        row = self.question or self.run
        assert row
        is_visible = visible_rows(type(row), access_of(person)).filter(pk=row.pk).exists()
        return bool(is_visible and (self.other is None or self.other.is_visible_to(person)))


def about_question(question: Question) -> Discussed:
    """Return a question as what comments are about."""
    return Discussed(question.job.location, None, "", question)


def about_comparison(one: Checkpoint, other: Checkpoint) -> Discussed:
    """Return the comparison of two checkpoints as what comments are about, the same in either order."""
    pair = sorted((one, other), key=lambda row: (str(row.location.uid), row.checkpoint_id))
    first, second = (Discussed(row.location, row.run, row.checkpoint_id) for row in pair)
    return replace(first, other=second)


def subject_of(comment: Comment) -> Discussed | None:
    """Return what a comment is about; None if its run is not here, or may not be seen."""
    if comment.question:
        return about_question(comment.question)
    if comment.other_location_uid:
        checkpoints = Checkpoint.objects.select_related("location__project", "run")
        pair = [
            checkpoints.filter(location__uid=uid, checkpoint_id=name).first()
            for uid, name in (
                (comment.location_uid, comment.checkpoint_id),
                (comment.other_location_uid, comment.other_checkpoint_id),
            )
        ]
        return about_comparison(pair[0], pair[1]) if pair[0] and pair[1] else None
    runs = Run.objects.select_related("location__project").filter(location__uid=comment.location_uid)
    at = comment.checkpoint_id
    found = runs.filter(checkpoints__checkpoint_id=at).first() if at else None
    run = found or runs.filter(key=comment.run_key).first()
    return Discussed(run.location, run, at) if run else None


def address_of(subject: Discussed) -> str:
    """Return the address of the comments on it."""
    if subject.question:
        return reverse("question-comments", args=[subject.question.job_id, subject.question.number])
    assert subject.run
    if subject.other:
        return reverse("comparison-comments", query=comparison_query(subject))
    query = f"?at={quote(subject.checkpoint_id, safe='')}" if subject.checkpoint_id else ""
    return f"{reverse('comments', args=[subject.run.uid])}{query}"


def comparison_query(subject: Discussed) -> dict[str, str]:
    """Return the query that names both checkpoints in the address of a comparison."""
    assert subject.run and subject.other and subject.other.run
    return {
        "a": f"{subject.run.uid}/{subject.checkpoint_id}",
        "b": f"{subject.other.run.uid}/{subject.other.checkpoint_id}",
    }


# Reading.


def comments_in(run: Run) -> CommentQuerySet:
    """Return the comments on a run and on its checkpoints, whose run may have changed since."""
    ids = run.checkpoints.order_by().values("checkpoint_id")
    of_run = Q(run_key=run.key, checkpoint_id="") | Q(checkpoint_id__in=ids)
    return comments_at(run.location).filter(of_run)


def comments_about(subject: Discussed) -> CommentQuerySet:
    """Return the comments on a subject, and for a run also those on its checkpoints."""
    if subject.run and not subject.checkpoint_id:
        return comments_in(subject.run)
    return Comment.objects.filter(**_same_subject(subject))


def discussions_in(comments: CommentQuerySet) -> CommentQuerySet:
    """Return the discussions of these comments: the open ones first, the newest on top."""
    shown = comments.filter(reply_to=None).select_related("written_by", "resolved_by")
    return shown.prefetch_related("mentioned", "replies__written_by", "replies__mentioned").order_by(
        F("resolved_at").desc(nulls_first=True), "-pk"
    )


def comments_at(location: Location) -> CommentQuerySet:
    """Return the comments on the runs and checkpoints of a location, in no order."""
    found = Comment.objects.filter(location_uid=location.uid, question=None, other_location_uid=None)
    return found.order_by()


def is_commented(location: Location) -> Q:
    """Return the condition of the checkpoints of a location with comments, also on their comparison."""
    first, second = _commented(location)
    return Q(checkpoint_id__in=first.values("checkpoint_id")) | Q(
        checkpoint_id__in=second.values("other_checkpoint_id")
    )


def commented_ids(location: Location) -> set[tuple[str, str]]:
    """Return the keys of runs and ids of checkpoints with comments, of which one is empty."""
    first, second = _commented(location)
    runs = comments_at(location).filter(checkpoint_id="").values_list("run_key", flat=True)
    return {
        *((key, "") for key in runs),
        *(("", one) for one in first.values_list("checkpoint_id", flat=True)),
        *(("", one) for one in second.values_list("other_checkpoint_id", flat=True)),
    }


def _commented(location: Location) -> tuple[CommentQuerySet, CommentQuerySet]:
    """The comments on checkpoints of a location, and on comparisons whose second checkpoint is there."""
    found = Comment.objects.filter(question=None).exclude(checkpoint_id="").order_by()
    return found.filter(location_uid=location.uid), found.filter(other_location_uid=location.uid)


def people_at(locations: Iterable[Location]) -> QuerySet[User]:
    """Return the people who may see all these locations, by their names."""
    found = User.objects.filter(is_active=True).order_by("username")
    for location in locations:
        roles = location.roles.model.objects.filter(Q(location=None) | Q(location=location))
        holders = Q(is_superuser=True) | Q(roles__in=roles) | Q(teams__roles__in=roles)
        found = found.filter(pk__in=User.objects.filter(holders).order_by().values("pk"))
    return found


def mentioned_in(text: str, subject: Discussed) -> list[User]:
    """Return the people whom a text mentions, of those who may see the subject."""
    names = list(dict.fromkeys(name for found in MENTION.findall(text) for name in _spellings(found)))
    people = User.objects.filter(username__in=names[: 4 * MAX_MENTIONED], is_active=True).order_by("username")
    return [one for one in people[:MAX_MENTIONED] if subject.is_visible_to(one)]


def _spellings(found: str) -> Iterator[str]:
    """The name as it was found, and without punctuation that ends a sentence."""
    yield found
    if (name := found.rstrip(".-+@")) not in ("", found):
        yield name


# Writing. Secrets are redacted, and each act is recorded.


def write(subject: Discussed, person: User | None, text: str, reply_to: int | None = None) -> Comment:
    """Store a comment, or a reply to the discussion with this key, and return it.

    ``person`` is None at a terminal. Raises NotWritten, and Comment.DoesNotExist if the subject has no such
    discussion.
    """
    return _write(subject, person, _clean(subject, text), reply_to)


@exclusive_transaction("comments")
def _write(subject: Discussed, person: User | None, text: str, reply_to: int | None) -> Comment:
    first = Comment.objects.get(pk=reply_to, reply_to=None, **_same_subject(subject)) if reply_to else None
    if first and first.replies.count() >= MAX_REPLIES:
        raise NotWritten(_("This discussion has %d replies. Start another one.") % MAX_REPLIES)
    comment = Comment.objects.create(**subject.ids, reply_to=first, text=text, written_by=person)
    comment.mentioned.set(mentioned_in(text, subject))
    _recorded(Action.ADDED, subject, comment)
    return comment


def edit(comment: Comment, subject: Discussed, text: str) -> None:
    """Change the text of a comment. Raises NotWritten."""
    _edit(comment, subject, _clean(subject, text))


@exclusive_transaction("comments")
def _edit(comment: Comment, subject: Discussed, text: str) -> None:
    if not Comment.objects.filter(pk=comment.pk).exclude(text="").update(text=text, edited_at=timezone.now()):
        raise NotWritten(_("The comment was deleted."))
    comment.mentioned.set(mentioned_in(text, subject))
    _recorded(Action.CHANGED, subject, comment)


@exclusive_transaction("comments")
def delete(comment: Comment, subject: Discussed) -> None:
    """Delete a comment. The first one of a discussion with replies stays there without its text."""
    _recorded(Action.REMOVED, subject, comment)
    if comment.replies.exists():
        Comment.objects.filter(pk=comment.pk).update(text="", edited_at=None)
        comment.mentioned.clear()
        return
    comment.delete()
    first = comment.reply_to
    if first and not first.text and not first.replies.exists():
        first.delete()


@exclusive_transaction("comments")
def resolve(comment: Comment, subject: Discussed, person: User | None, *, is_resolved: bool) -> None:
    """Resolve a discussion, or reopen it."""
    if comment.resolve(person, is_resolved=is_resolved):
        _recorded(Action.CHANGED, subject, comment, "resolved " if is_resolved else "reopened ")


def _clean(subject: Discussed, text: str) -> str:
    """The text without secrets. Raises NotWritten."""
    text = text.replace("\r\n", "\n").replace("\0", "").strip()
    if not text:
        raise NotWritten(_("Write something first."))
    if len(text) > MAX_COMMENT:
        raise NotWritten(_("A comment has at most %d characters.") % MAX_COMMENT)
    for location in subject.locations:
        (text,) = ask(Redact(location.project_id, [text]))
    return text[:MAX_COMMENT]


def _same_subject(subject: Discussed) -> dict[str, Any]:
    """The columns of comments about the same. The run of a checkpoint may have changed."""
    ids = subject.ids
    if subject.checkpoint_id:
        del ids["run_key"]
    return ids


def _recorded(action: Action, subject: Discussed, comment: Comment, done: str = "") -> None:
    """Record the act, and have open pages show it."""
    for location in subject.locations:
        location.mark_changed()
    if subject.other:
        kind, key, part = Audited.COMPARISON, audited_key(subject), "comparison"
    elif subject.question:
        kind, key, part = Audited.QUESTION, f"{subject.question.job_id}/{subject.question.number}", "question"
    else:
        assert subject.run
        kind, key = Audited.RUN, str(subject.run.uid)
        part = "checkpoint" if subject.checkpoint_id else "run"
    record(action, kind, key, f"{done}comment {comment.pk} on the {part}")


def audited_key(subject: Discussed) -> str:
    """Return the keys of both checkpoints of a comparison, as the audit trail names it."""
    pair = [subject, subject.other] if subject.other else [subject]
    rows = [one.location.checkpoints.filter(run=one.run, checkpoint_id=one.checkpoint_id) for one in pair]
    return " ".join(str(pk) for row in rows for pk in row.values_list("pk", flat=True)[:1])
