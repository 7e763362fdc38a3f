"""Comments on a run, its checkpoints, a comparison, or a question."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import Checkpoint, Comment, Question, Right, Run
from viewer.presentation.comparison_sides import checkpoint_of, reference_in
from viewer.records import discussion
from viewer.records.audit import Audited, opens
from viewer.records.discussion import (
    MAX_COMMENT,
    Discussed,
    NotWritten,
    address_of,
    comparison_query,
    discussions_in,
    people_at,
)
from viewer.records.permissions import may, person_of, requires
from viewer.validation import number_in

DISCUSSIONS_A_PAGE = 20
# Characters that one page renders as Markdown, for which hostile Markdown takes a second.
MAX_MARKDOWN = 50_000
# People whose names the form offers.
MAX_OFFERED = 20


@requires(Right.VIEW)
@require_GET
def of_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the comments on a run and its checkpoints, or only those on the checkpoint ``?at=``."""
    subject = _run_subject(request, uid)
    assert subject.run
    comments = discussion.comments_in(subject.run)
    if subject.checkpoint_id:
        comments = comments.filter(checkpoint_id=subject.checkpoint_id)
    return _page(request, subject, comments)


@requires(Right.VIEW)
@require_GET
def of_question(request: HttpRequest, job: UUID, number: int) -> HttpResponse:
    """Show the comments on a question."""
    subject = _question_subject(job, number)
    return _page(request, subject, Comment.objects.filter(question=subject.question))


@requires(Right.VIEW)
@require_GET
def of_comparison(request: HttpRequest) -> HttpResponse:
    """Show the comments on the comparison of ``?a=`` and ``?b=``, or the page to choose them on."""
    pair = _compared(request)
    if pair is None:
        return redirect(f"{reverse('compare')}?{request.GET.urlencode()}")
    subject = discussion.about_comparison(*pair)
    opens(Audited.COMPARISON, discussion.audited_key(subject))
    more = {"pair": pair, "comparison": urlencode(comparison_query(subject))}
    return _page(request, subject, discussion.on_comparison(subject), more)


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to a comment, for links that say nothing about what it is about."""
    comment = get_object_or_404(Comment.objects.select_related("question__job__location"), pk=pk)
    return redirect(f"{address_of(_subject_of(comment))}#comment-{pk}")


@requires(Right.COMMENT)
@require_POST
def write_on_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Add a comment on a run or on its checkpoint ``?at=``, or a reply."""
    return _write(request, _run_subject(request, uid))


@requires(Right.COMMENT)
@require_POST
def write_on_question(request: HttpRequest, job: UUID, number: int) -> HttpResponse:
    """Add a comment on a question, or a reply."""
    return _write(request, _question_subject(job, number))


@requires(Right.COMMENT)
@require_POST
def write_on_comparison(request: HttpRequest) -> HttpResponse:
    """Add a comment on the comparison of ``?a=`` and ``?b=``, or a reply."""
    if (pair := _compared(request)) is None:
        raise Http404
    return _write(request, discussion.about_comparison(*pair))


@requires(Right.COMMENT)
@require_POST
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Change the text of one's own comment."""
    comment = _own(request, pk)
    subject = _subject_of(comment)
    try:
        discussion.edit(comment, subject, request.POST.get("text", ""))
    except NotWritten as error:
        messages.error(request, str(error))
    return redirect(f"{address_of(subject)}#comment-{comment.pk}")


@requires(Right.COMMENT)
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete one's own comment."""
    comment = _own(request, pk)
    subject = _subject_of(comment)
    discussion.delete(comment, subject)
    messages.success(request, _("Deleted the comment."))
    return redirect(address_of(subject))


@requires(Right.COMMENT)
@require_POST
def resolve(request: HttpRequest, pk: int) -> HttpResponse:
    """Resolve a discussion, or reopen it."""
    comment = get_object_or_404(Comment, pk=pk, reply_to=None)
    subject = _subject_of(comment)
    discussion.resolve(comment, subject, person_of(request), is_resolved="resolved" in request.POST)
    return redirect(f"{address_of(subject)}#comment-{comment.pk}")


def _page(
    request: HttpRequest, subject: Discussed, comments: Any, more: Mapping[str, Any] = MappingProxyType({})
) -> HttpResponse:
    page = Paginator(discussions_in(comments), DISCUSSIONS_A_PAGE).get_page(request.GET.get("page"))
    budget = MAX_MARKDOWN
    for comment in (one for first in page for one in (first, *first.replies.all())):
        budget -= len(comment.text)
        comment.is_formatted = budget >= 0
        comment.is_own = comment.is_by(request.user)
    path, mark, query = address_of(subject).partition("?")
    context = {
        "subject": subject,
        "location": subject.location,
        "page": page,
        "may_comment": all(may(request.user, Right.COMMENT, one.pk) for one in subject.locations),
        "people": people_at(subject.locations).exclude(username=request.user.get_username())[:MAX_OFFERED],
        "add_url": f"{path}add/{mark}{query}",
        "max_comment": MAX_COMMENT,
    }
    return render(request, "discussion/page.html", {**context, **more})


def _write(request: HttpRequest, subject: Discussed) -> HttpResponse:
    reply_to = number_in(request.POST.get("reply_to", ""))
    try:
        comment = discussion.write(subject, person_of(request), request.POST.get("text", ""), reply_to)
    except Comment.DoesNotExist:
        raise Http404 from None
    except NotWritten as error:
        messages.error(request, str(error))
        return redirect(address_of(subject))
    return redirect(f"{address_of(subject)}#comment-{comment.pk}")


def _run_subject(request: HttpRequest, uid: UUID) -> Discussed:
    """What the address names. Raises Http404 if the run has no such checkpoint."""
    run = get_object_or_404(Run.objects.select_related("location__project"), uid=uid)
    at = request.GET.get("at", "")
    if at and not run.checkpoints.filter(checkpoint_id=at).exists():
        raise Http404
    return Discussed(run.location, run, at)


def _compared(request: HttpRequest) -> tuple[Checkpoint, Checkpoint] | None:
    """The two checkpoints that the address names; None if it does not."""
    found = [reference_in(request.GET.get(name, "")) for name in ("a", "b")]
    one, other = (checkpoint_of(named) if named and named.checkpoint else None for named in found)
    return (one, other) if one and other and one.pk != other.pk else None


def _question_subject(job: UUID, number: int) -> Discussed:
    questions = Question.objects.select_related("job__location__project", "job__run")
    return discussion.about_question(get_object_or_404(questions, job=job, number=number))


def _subject_of(comment: Comment) -> Discussed:
    """What a comment is about. Raises Http404 if that is not here now."""
    subject = discussion.subject_of(comment)
    if subject is None:
        raise Http404
    return subject


def _own(request: HttpRequest, pk: int) -> Comment:
    """The user's own comment. Raises Http404 if it is somebody else's, or deleted."""
    comment = get_object_or_404(
        Comment.objects.select_related("reply_to", "question").exclude(text=""), pk=pk
    )
    if not comment.is_by(request.user):
        raise Http404
    return comment
