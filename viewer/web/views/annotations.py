"""Writing names, stars, labels and notes."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from viewer.models import Annotation, Right, Run
from viewer.records.annotations import (
    SEEN,
    AnnotatedObject,
    AnnotationChanged,
    annotate,
    annotation_of,
    joined_labels,
    labels_in_use,
    mark_of,
    versions_of,
)
from viewer.records.permissions import person_of, requires
from viewer.validation import number_in

MAX_VERSIONS = 50


@requires(Right.ANNOTATE)
@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the form of a run, of ``?branch=`` or of the checkpoint ``?at=``, and save what was typed."""
    subject = _subject(request, uid)
    if request.method == "POST":
        try:
            saved = annotate(
                subject,
                person_of(request),
                name=request.POST.get("name", ""),
                is_starred="starred" in request.POST,
                labels=[request.POST.get("labels", "")],
                note=request.POST.get("note", ""),
                seen=request.POST.get(SEEN),
            )
        except AnnotationChanged as changed:
            return _page(request, subject, _typed(request, subject), changed.current)
        messages.success(request, _("Deleted the name and note.") if saved.is_empty else _("Saved."))
        return redirect(_address_of(subject))
    return _page(request, subject, _chosen_version(request, subject) or annotation_of(subject))


def _page(
    request: HttpRequest, subject: AnnotatedObject, shown: Annotation, other: Annotation | None = None
) -> HttpResponse:
    """The form with these texts. ``other`` are those that somebody saved while they were typed."""
    stored = other or annotation_of(subject)
    context = {
        "run": subject.run,
        "subject": subject,
        "annotation": shown,
        "other": other,
        "seen": mark_of(*stored.texts),
        "versions": versions_of(subject)[:MAX_VERSIONS],
        "branch": _branch_of(subject),
        "known_labels": labels_in_use(),
        "back": _address_of(subject),
    }
    return render(request, "annotations/page.html", context, status=409 if other else 200)


def _typed(request: HttpRequest, subject: AnnotatedObject) -> Annotation:
    """What was sent, which is not stored."""
    sent = request.POST
    labels = joined_labels([sent.get("labels", "")])
    texts = {"name": sent.get("name", ""), "label_text": labels, "note": sent.get("note", "")}
    return Annotation(**subject.ids, **texts, is_starred="starred" in sent)


def _chosen_version(request: HttpRequest, subject: AnnotatedObject) -> Annotation | None:
    """The former texts that ``?version=`` names, to be saved again; None if it names none."""
    version = versions_of(subject).filter(pk=number_in(request.GET.get("version", "")) or 0).first()
    if version is None:
        return None
    texts = {"name": version.name, "label_text": version.label_text, "note": version.note}
    return Annotation(**subject.ids, **texts, is_starred=annotation_of(subject).is_starred)


@requires(Right.ANNOTATE)
@require_POST
def star(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Give a run a star, or take it away, and return its button."""
    subject = _subject(request, uid)
    is_starred = not annotation_of(subject).is_starred
    annotate(subject, person_of(request), is_starred=is_starred)
    return render(request, "annotations/_star.html", {"run": subject.run, "is_starred": is_starred})


def _subject(request: HttpRequest, uid: UUID) -> AnnotatedObject:
    """What the address names. Raises Http404 if the run has no such branch or checkpoint."""
    run = get_object_or_404(Run.objects.select_related("location__project"), uid=uid)
    branch, at = request.GET.get("branch", ""), request.GET.get("at", "")
    if at and not run.checkpoints.filter(checkpoint_id=at).exists():
        raise Http404
    if branch and not at and branch not in run.branch_names:
        raise Http404
    return AnnotatedObject(run, "" if at else branch, at)


def _branch_of(subject: AnnotatedObject) -> str:
    """The branch, or that of the checkpoint; empty for a run."""
    rows = subject.run.checkpoints.filter(checkpoint_id=subject.checkpoint_id)
    return subject.branch or rows.values_list("branch", flat=True).first() or ""


def _address_of(subject: AnnotatedObject) -> str:
    """The page that shows it."""
    query = {"branch": subject.branch, "at": subject.checkpoint_id}
    kept = urlencode({name: value for name, value in query.items() if value})
    return subject.run.get_absolute_url() + (f"?{kept}" if kept else "")
