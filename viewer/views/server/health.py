"""A health check for monitoring programs."""

import logging

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from viewer.data_folder.identity import problem_while_served
from viewer.models import Location

logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 and "ok" if the database answers, else 503 and "unavailable"."""
    problem = problem_while_served()
    try:
        if not problem:
            Location.objects.exists()
    except DatabaseError as error:
        problem = str(error)
    if problem:
        logger.error("not healthy: %s", problem)
    text = "unavailable" if problem else "ok"
    return HttpResponse(f"{text}\n", content_type="text/plain", status=503 if problem else 200)
