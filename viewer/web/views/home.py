"""The home page: what needs a person, what runs, what failed, and every run."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from viewer.host_requests import PrepareImport, ask
from viewer.models import Location, Run
from viewer.presentation.home import attention
from viewer.presentation.run_list import run_list
from viewer.records.permissions import viewer_allowed
from viewer.web.live.feeds import home_state
from viewer.web.views.locations import adding_context


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only its contents to a page that refreshes."""
    ask(PrepareImport())
    locations = list(Location.objects.with_counts())
    context = {
        "attention": attention(),
        "locations": locations,
        "runs": run_list(Run.objects.top_level(), request.GET, shows_location=True),
        "state": home_state(),
    }
    if not locations:
        context |= adding_context(request)
    part = request.headers.get("HX-Target") == "home-contents"
    return render(request, f"home/{'_contents' if part else 'page'}.html", context)
