"""What people write about runs: comments, names, stars, labels and notes; and of what they are notified."""

from base64 import b64encode
from secrets import token_bytes
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.core.validators import URLValidator, validate_email
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.models import (
    Annotation,
    Checkpoint,
    Comment,
    MutedRun,
    Notification,
    NotificationTarget,
    Question,
    Right,
    Run,
    run_uid,
)
from viewer.presentation.comparison_sides import checkpoint_of, reference_in
from viewer.records import annotations
from viewer.records.annotations import (
    MAX_COMMENT,
    Discussed,
    NotWritten,
    address_of,
    comparison_query,
    discussions_in,
    people_at,
)
from viewer.records.audit import Action, Audited, opens, record
from viewer.records.notifications import mute
from viewer.records.permissions import may, person_of, requires
from viewer.validation import number_in
from viewer.web.fields import errors_text

DISCUSSIONS_A_PAGE = 20
# Characters that one page renders as Markdown, for which hostile Markdown takes a second.
MAX_MARKDOWN = 50_000
# People whose names the form offers.
MAX_OFFERED = 20


@requires(Right.VIEW)
@require_GET
def of_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the comments on a run and its checkpoints, or only those on the checkpoint ``?at=``."""
    return _page(request, _run_subject(request, uid))


@requires(Right.VIEW)
@require_GET
def of_question(request: HttpRequest, job: UUID, number: int) -> HttpResponse:
    """Show the comments on a question."""
    return _page(request, _question_subject(job, number))


@requires(Right.VIEW)
@require_GET
def of_comparison(request: HttpRequest) -> HttpResponse:
    """Show the comments on the comparison of ``?a=`` and ``?b=``, or the page to choose them on."""
    pair = _compared(request)
    if pair is None:
        return redirect(f"{reverse('compare')}?{request.GET.urlencode()}")
    subject = annotations.about_comparison(*pair)
    opens(Audited.COMPARISON, annotations.audited_key(subject))
    return _page(request, subject)


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
    return _write(request, annotations.about_comparison(*pair))


@requires(Right.COMMENT)
@require_POST
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Change the text of one's own comment."""
    comment = _own(request, pk)
    subject = _subject_of(comment)
    try:
        annotations.edit(comment, subject, request.POST.get("text", ""))
    except NotWritten as error:
        messages.error(request, str(error))
        return _page(request, subject, request.POST.get("text", ""))
    return redirect(f"{address_of(subject)}#comment-{comment.pk}")


@requires(Right.COMMENT)
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete one's own comment."""
    comment = _own(request, pk)
    subject = _subject_of(comment)
    annotations.delete(comment, subject)
    messages.success(request, _("Deleted the comment."))
    return redirect(address_of(subject))


@requires(Right.COMMENT)
@require_POST
def resolve(request: HttpRequest, pk: int) -> HttpResponse:
    """Resolve a discussion, or reopen it."""
    comment = get_object_or_404(Comment, pk=pk, reply_to=None)
    subject = _subject_of(comment)
    annotations.resolve(comment, subject, person_of(request), is_resolved="resolved" in request.POST)
    return redirect(f"{address_of(subject)}#comment-{comment.pk}")


def _page(request: HttpRequest, subject: Discussed, refused: str | None = None) -> HttpResponse:
    """The comments, and the form with the text that was ``refused``."""
    comments = annotations.comments_about(subject)
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
        "refused": refused or "",
    }
    if subject.other:
        context["pair"] = [one.checkpoint for one in (subject, subject.other)]
        context["comparison"] = urlencode(comparison_query(subject))
    return render(request, "discussion/page.html", context, status=422 if refused is not None else 200)


def _write(request: HttpRequest, subject: Discussed) -> HttpResponse:
    reply_to = number_in(request.POST.get("reply_to", ""))
    try:
        comment = annotations.write(subject, person_of(request), request.POST.get("text", ""), reply_to)
    except Comment.DoesNotExist:
        raise Http404 from None
    except NotWritten as error:
        messages.error(request, str(error))
        return _page(request, subject, request.POST.get("text", ""))
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
    return annotations.about_question(get_object_or_404(questions, job=job, number=number))


def _subject_of(comment: Comment) -> Discussed:
    """What a comment is about. Raises Http404 if that is not here now."""
    subject = annotations.subject_of(comment)
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


MAX_VERSIONS = 50


@requires(Right.ANNOTATE)
@require_http_methods(["GET", "POST"])
def edit_annotation(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the form of a run, of ``?branch=`` or of the checkpoint ``?at=``, and save what was typed."""
    subject = _subject(request, uid)
    if request.method == "POST":
        try:
            saved = annotations.annotate(
                subject,
                person_of(request),
                name=request.POST.get("name", ""),
                is_starred="starred" in request.POST,
                labels=[request.POST.get("labels", "")],
                note=request.POST.get("note", ""),
                seen=request.POST.get(annotations.SEEN),
            )
        except annotations.AnnotationChanged as changed:
            return _annotation_page(request, subject, _typed_annotation(request, subject), changed.current)
        messages.success(request, _("Deleted the name and note.") if saved.is_empty else _("Saved."))
        return redirect(_address_of_annotation(subject))
    return _annotation_page(
        request, subject, _chosen_version(request, subject) or annotations.annotation_of(subject)
    )


def _annotation_page(
    request: HttpRequest,
    subject: annotations.AnnotatedObject,
    shown: Annotation,
    other: Annotation | None = None,
) -> HttpResponse:
    """The form with these texts. ``other`` are those that somebody saved while they were typed."""
    stored = other or annotations.annotation_of(subject)
    context = {
        "run": subject.run,
        "subject": subject,
        "annotation": shown,
        "other": other,
        "seen": annotations.mark_of(*stored.texts),
        "versions": annotations.versions_of(subject)[:MAX_VERSIONS],
        "branch": _branch_of(subject),
        "known_labels": annotations.labels_in_use(),
        "back": _address_of_annotation(subject),
    }
    return render(request, "annotations/page.html", context, status=409 if other else 200)


def _typed_annotation(request: HttpRequest, subject: annotations.AnnotatedObject) -> Annotation:
    """What was sent, which is not stored."""
    sent = request.POST
    labels = annotations.joined_labels([sent.get("labels", "")])
    texts = {"name": sent.get("name", ""), "label_text": labels, "note": sent.get("note", "")}
    return Annotation(**subject.ids, **texts, is_starred="starred" in sent)


def _chosen_version(request: HttpRequest, subject: annotations.AnnotatedObject) -> Annotation | None:
    """The former texts that ``?version=`` names, to be saved again; None if it names none."""
    version = (
        annotations.versions_of(subject).filter(pk=number_in(request.GET.get("version", "")) or 0).first()
    )
    if version is None:
        return None
    texts = {"name": version.name, "label_text": version.label_text, "note": version.note}
    return Annotation(**subject.ids, **texts, is_starred=annotations.annotation_of(subject).is_starred)


@requires(Right.ANNOTATE)
@require_POST
def star(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Give a run a star, or take it away, and return its button."""
    subject = _subject(request, uid)
    is_starred = not annotations.annotation_of(subject).is_starred
    annotations.annotate(subject, person_of(request), is_starred=is_starred)
    return render(request, "annotations/_star.html", {"run": subject.run, "is_starred": is_starred})


def _subject(request: HttpRequest, uid: UUID) -> annotations.AnnotatedObject:
    """What the address names. Raises Http404 if the run has no such branch or checkpoint."""
    run = get_object_or_404(Run.objects.select_related("location__project"), uid=uid)
    branch, at = request.GET.get("branch", ""), request.GET.get("at", "")
    if at and not run.checkpoints.filter(checkpoint_id=at).exists():
        raise Http404
    if branch and not at and branch not in run.branch_names:
        raise Http404
    return annotations.AnnotatedObject(run, "" if at else branch, at)


def _branch_of(subject: annotations.AnnotatedObject) -> str:
    """The branch, or that of the checkpoint; empty for a run."""
    rows = subject.run.checkpoints.filter(checkpoint_id=subject.checkpoint_id)
    return subject.branch or rows.values_list("branch", flat=True).first() or ""


def _address_of_annotation(subject: annotations.AnnotatedObject) -> str:
    """The page that shows it."""
    query = {"branch": subject.branch, "at": subject.checkpoint_id}
    kept = urlencode({name: value for name, value in query.items() if value})
    return subject.run.get_absolute_url() + (f"?{kept}" if kept else "")


Kind = NotificationTarget.Kind
# The newest messages that the page lists.
MAX_LISTED = 30
EVENTS = ("of_questions", "of_jobs", "of_all_jobs", "of_limits", "of_mentions")


class TargetForm(forms.ModelForm):  # type: ignore[type-arg]
    """Where a person is notified, and of what. Without an address, nothing is sent."""

    address = forms.CharField(max_length=500, required=False)

    class Meta:
        model = NotificationTarget
        fields = ("address", *EVENTS)

    def clean_address(self) -> str:
        address = str(self.cleaned_data["address"]).strip()
        if address and self.instance.kind == Kind.MAIL:
            validate_email(address)
        elif address:
            schemes = ["https", "http"] if settings.WEBHOOKS_TO_PRIVATE_ADDRESSES else ["https"]
            URLValidator(schemes)(address)
        return address


@requires(Right.VIEW)
@require_GET
def notifications(request: HttpRequest) -> HttpResponse:
    """Show what the person has chosen, and the newest messages."""
    return _notifications_page(request)


@requires(Right.VIEW)
@require_POST
def save_target(request: HttpRequest) -> HttpResponse:
    """Store where the person is notified by mail or webhook, and of what."""
    kind = Kind.WEBHOOK if request.POST.get("kind") == Kind.WEBHOOK else Kind.MAIL
    user = get_object_or_404(User, pk=request.user.pk)
    target = NotificationTarget.objects.filter(user=user, kind=kind).first()
    target = target or NotificationTarget(user=user, kind=kind)
    former = target.address
    form = TargetForm(request.POST, instance=target)
    if not form.is_valid():
        target.address = request.POST.get("address", "")
        return _notifications_page(request, refused=target, error=errors_text(form))
    secret = ""
    if kind == Kind.WEBHOOK and target.address and target.address != former:
        secret = target.secret = f"whsec_{b64encode(token_bytes(32)).decode()}"
    if target.address or target.pk:
        with transaction.atomic():
            _store(target, former)
            record(Action.CHANGED, Audited.USER, user.pk, f"notifications by {kind}")
    if secret:
        return _notifications_page(request, secret)
    messages.success(request, _("Saved."))
    return redirect("notifications")


def _store(target: NotificationTarget, former: str) -> None:
    """Store the target, or delete it if it has no address. Messages to a former address are not sent."""
    if not target.address:
        target.delete()
        return
    if target.address != former:
        target.since = timezone.now()
    target.save()
    if target.address != former:
        target.notifications.filter(sent_at=None).update(due_at=None)


@requires(Right.VIEW)
@require_POST
def mute_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Mute a run, or unmute it."""
    run = get_object_or_404(Run.objects.select_related("location"), uid=uid)
    mute(get_object_or_404(User, pk=request.user.pk), run, is_muted="mute" in request.POST)
    messages.success(request, _("Saved."))
    return redirect(run)


def _notifications_page(
    request: HttpRequest, secret: str = "", refused: NotificationTarget | None = None, error: str = ""
) -> HttpResponse:
    """The page, with the ``secret`` of a new webhook, or with a ``refused`` target and the ``error``."""
    own: dict[str, Any] = {one.kind: one for one in NotificationTarget.objects.filter(user=request.user.pk)}
    own |= {refused.kind: refused} if refused else {}
    sent = Notification.objects.filter(target__user=request.user.pk).select_related("target")
    muted = MutedRun.objects.filter(user=request.user.pk).values_list("location_uid", "run_key")
    runs = Run.objects.select_related("location").filter(uid__in=[run_uid(*ids) for ids in muted])
    context = {
        "mail": own.get(Kind.MAIL) or NotificationTarget(kind=Kind.MAIL),
        "webhook": own.get(Kind.WEBHOOK) or NotificationTarget(kind=Kind.WEBHOOK),
        "has_mail": bool(settings.EMAIL_HOST),
        "secret": secret,
        "refused": refused,
        "error": error,
        "sent": sent.order_by("-pk")[:MAX_LISTED],
        "muted": runs,
    }
    return render(request, "notifications/page.html", context, status=422 if refused else 200)
