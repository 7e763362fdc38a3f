"""What Forkline stores itself."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from viewer.access.permissions import viewer_allowed
from viewer.retention.sizes import sizes


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the sizes of what the data folder holds."""
    return render(request, "stored_data/page.html", {"sizes": list(sizes())})
