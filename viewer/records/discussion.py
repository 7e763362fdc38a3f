"""Comments on runs, checkpoints, comparisons and questions: discussions, mentions, and who may see them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.locks import exclusive_transaction
from viewer.host_requests import Redact, ask
from viewer.models import Checkpoint, Comment, Location, Question, Run, access_of
from viewer.models.discussion import CommentQuerySet
from viewer.models.roles import visible_rows
from viewer.records.audit import Action, Audited, record

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


def on_checkpoint(checkpoint: Checkpoint) -> CommentQuerySet:
    """Return the comments on a checkpoint."""
    return comments_at(checkpoint.location).filter(checkpoint_id=checkpoint.checkpoint_id)


def on_comparison(subject: Discussed) -> CommentQuerySet:
    """Return the comments on a comparison."""
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
