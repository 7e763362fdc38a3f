"""Comments on runs, checkpoints and questions: discussions, mentions, and who may see them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
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
    """What comments are about: a run, one of its checkpoints, or a question, whose job may have no run."""

    location: Location
    run: Run | None = None
    checkpoint_id: str = ""
    question: Question | None = None

    @property
    def ids(self) -> dict[str, Any]:
        """The columns of its comments."""
        return {
            "location_uid": self.location.uid,
            "run_key": self.run.key if self.run and not self.question else "",
            "checkpoint_id": self.checkpoint_id,
            "question": self.question,
        }

    def is_visible_to(self, person: User) -> bool:
        """Whether a person may see it."""
        row = self.question or self.run
        assert row
        return bool(visible_rows(type(row), access_of(person)).filter(pk=row.pk).exists())


def about_question(question: Question) -> Discussed:
    """Return a question as what comments are about."""
    return Discussed(question.job.location, None, "", question)


def subject_of(comment: Comment) -> Discussed | None:
    """Return what a comment is about; None if its run is not here, or may not be seen."""
    if comment.question:
        return about_question(comment.question)
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
    query = f"?at={quote(subject.checkpoint_id, safe='')}" if subject.checkpoint_id else ""
    return f"{reverse('comments', args=[subject.run.uid])}{query}"


# Reading.


def comments_in(run: Run) -> CommentQuerySet:
    """Return the comments on a run and on its checkpoints, whose run may have changed since."""
    ids = run.checkpoints.order_by().values("checkpoint_id")
    of_run = Q(run_key=run.key, checkpoint_id="") | Q(checkpoint_id__in=ids)
    return comments_at(run.location).filter(of_run)


def on_checkpoint(checkpoint: Checkpoint) -> CommentQuerySet:
    """Return the comments on a checkpoint."""
    return comments_at(checkpoint.location).filter(checkpoint_id=checkpoint.checkpoint_id)


def discussions_in(comments: CommentQuerySet) -> CommentQuerySet:
    """Return the discussions of these comments: the open ones first, the newest on top."""
    shown = comments.filter(reply_to=None).select_related("written_by", "resolved_by")
    return shown.prefetch_related("mentioned", "replies__written_by", "replies__mentioned").order_by(
        F("resolved_at").desc(nulls_first=True), "-pk"
    )


def comments_at(location: Location) -> CommentQuerySet:
    """Return the comments on the runs and checkpoints of a location, in no order."""
    return Comment.objects.filter(location_uid=location.uid, question=None).order_by()


def commented_ids(location: Location) -> set[tuple[str, str]]:
    """Return the keys of runs and ids of checkpoints with comments, of which one is empty."""
    found = comments_at(location).values_list("run_key", "checkpoint_id").distinct()
    return {("" if checkpoint else key, checkpoint) for key, checkpoint in found}


def people_at(location: Location) -> QuerySet[User]:
    """Return the people who may see a location, by their names."""
    at = Q(location=None) | Q(location=location)
    roles = location.roles.model.objects.filter(at)
    holders = Q(is_superuser=True) | Q(roles__in=roles) | Q(teams__roles__in=roles)
    pks = User.objects.filter(holders, is_active=True).order_by().values("pk")
    return User.objects.filter(pk__in=pks).order_by("username")


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
    (clean,) = ask(Redact(subject.location.project_id, [text]))
    return str(clean)[:MAX_COMMENT]


def _same_subject(subject: Discussed) -> dict[str, Any]:
    """The columns of comments about the same. The run of a checkpoint may have changed."""
    ids = subject.ids
    if subject.checkpoint_id:
        del ids["run_key"]
    return ids


def _recorded(action: Action, subject: Discussed, comment: Comment, done: str = "") -> None:
    """Record the act, and have open pages show it."""
    subject.location.mark_changed()
    if subject.question:
        kind, key, part = Audited.QUESTION, f"{subject.question.job_id}/{subject.question.number}", "question"
    else:
        assert subject.run
        kind, key = Audited.RUN, str(subject.run.uid)
        part = "checkpoint" if subject.checkpoint_id else "run"
    record(action, kind, key, f"{done}comment {comment.pk} on the {part}")
