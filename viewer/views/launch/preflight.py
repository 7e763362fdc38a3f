"""Polled by a form while its preflight check runs."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from viewer.models import PreflightCheck


@require_GET
def show(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return nothing; once the check has ended, trigger an update of the form's plan."""
    check = get_object_or_404(PreflightCheck, pk=pk)
    return HttpResponse(status=204, headers={"HX-Trigger": "preflight"} if check.has_ended else {})
