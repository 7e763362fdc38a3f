"""A run as a file, and the response of every download."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from viewer.engines.reproduction import NotReproducible
from viewer.host_requests import ImportRun, ask
from viewer.messages.translation import translate
from viewer.models import Right, Run
from viewer.presentation.export import ALL_FORMATS, file_name
from viewer.records.audit import Audited, opens
from viewer.records.permissions import requires


@requires(Right.VIEW)
@require_GET
def of_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return a run in a format as a download, which a browser never displays here."""
    if (wanted := ALL_FORMATS.get(request.GET.get("format", "html"))) is None:
        raise Http404
    run = get_object_or_404(Run.objects.select_related("location__project", "parent"), uid=uid)
    opens(Audited.RUN, run.uid, request.GET.get("format", "html"))
    if ask(ImportRun(run.pk)).is_news:
        run.refresh_from_db()
    try:
        text = wanted.write(run)
    except NotReproducible as error:
        messages.error(request, translate(error))
        return redirect(run)
    return download(text, file_name(run, wanted), f"{wanted.media_type}; charset=utf-8")


def download(data: str | bytes, name: str, media_type: str) -> HttpResponse:
    """Return the response with this file, which a browser saves and never displays."""
    response = HttpResponse(data, content_type=media_type)
    response["Content-Disposition"] = content_disposition_header(True, name)
    response["X-Content-Type-Options"] = "nosniff"
    return response
