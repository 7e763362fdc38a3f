"""What Forkline stores itself."""

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from viewer.access.permissions import viewer_allowed
from viewer.retention.drafts import drafts_of, stored_drafts
from viewer.retention.sizes import sizes

DRAFTS_A_PAGE = 50


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the sizes of what the data folder holds, and each draft."""
    page = Paginator(stored_drafts(), DRAFTS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "sizes": list(sizes()),
        "page": page,
        "drafts": drafts_of(list(page)),
        "scratch_days": settings.SCRATCH_DAYS,
        "now": timezone.now(),
    }
    return render(request, "stored_data/page.html", context)
