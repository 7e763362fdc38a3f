"""Share links: their pages for visitors, and making, listing and revoking them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from csp.decorators import csp_replace, csp_update
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.utils.translation import gettext as _
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from viewer.engines import engine_of
from viewer.engines.protocol import Contents, Engine
from viewer.host_requests import NotReadable, each_asked_once
from viewer.models import Checkpoint, Location, Right, Run, ShareLink
from viewer.presentation import share_links
from viewer.presentation.comparison_sides import compared_checkpoints
from viewer.presentation.jobs.pages import shown_job
from viewer.presentation.listing import MAX_QUERY
from viewer.presentation.run.branches import branch_colours, branch_list
from viewer.presentation.run.window import PARAMETERS, Collapsing, Wanted, window_of
from viewer.records.annotations import annotations_in
from viewer.records.audit import act_as_link
from viewer.records.bodies import body_of, contents_at
from viewer.records.lineage.graphs import NoLayout
from viewer.records.permissions import requires, sharing_as
from viewer.records.search import Results, SearchRefused, search
from viewer.records.search_filters import Filters
from viewer.validation import number_in
from viewer.web.views.accounts import account_of
from viewer.web.views.checkpoints import (
    SHARED_TABS,
    contents_before,
    event_page,
    reads_markdown,
    selected_checkpoint,
    tab_choice,
)
from viewer.web.views.compare import table_context
from viewer.web.views.runs import kept_query
from viewer.web.views.search import SearchForm

# The newest links that the list shows.
MAX_LINKS = 500


def _choices() -> list[tuple[str, str]]:
    return [
        (str(days), ngettext("%(count)s day", "%(count)s days", days) % {"count": days})
        for days in share_links.EXPIRY_DAYS
    ]


class ShareForm(forms.Form):
    """How long a link works, and whether it unfurls in a chat."""

    days = forms.ChoiceField(
        label=gettext_lazy("Expires after"), choices=_choices, initial=str(share_links.EXPIRY_DAYS[0])
    )
    unfurls = forms.BooleanField(
        label=gettext_lazy("Show a preview where the link is pasted"), required=False
    )

    @property
    def days_chosen(self) -> int:
        """How many days the link works."""
        return int(self.cleaned_data["days"])


@requires(Right.SHARE)
@csp_update({"frame-src": ["'self'"]})
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show what a link to ``?kind=&target=`` would show, and make it.

    The link is shown once: only a hash of its token is stored, so nothing redirects to it.
    """
    shared = _shared(share_links.subject_in(request.GET.get("kind", ""), request.GET.get("target", "")))
    form = ShareForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"shared": shared, "form": form, "back": _address_of(shared)}
    context["preview"] = reverse("share-preview", args=[shared.subject.path])
    if not form.is_bound or not form.is_valid():
        return render(request, "shares/new.html", context, status=422 if form.is_bound else 200)
    link, token = share_links.make_link(
        shared, account_of(request), days=form.days_chosen, unfurls=form.cleaned_data["unfurls"]
    )
    address = origin_of(request) + reverse("shared", args=[token])
    context |= {"link": link, "address": address}
    if settings.EMBED_ORIGINS and link.kind == ShareLink.Kind.RUN:
        frame = '<iframe src="{}embed/" title="{}" width="100%" height="480" loading="lazy"></iframe>'
        context |= {"frame": format_html(frame, address, shared.title), "origins": settings.EMBED_ORIGINS}
    return render(request, "shares/made.html", context)


@requires(Right.SHARE)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List all links, the newest first."""
    with each_asked_once():
        links = [_listed(link) for link in ShareLink.objects.select_related("made_by")[:MAX_LINKS]]
    return render(request, "shares/list.html", {"links": links})


@requires(Right.SHARE)
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a link. Its open pages end at once."""
    link = get_object_or_404(ShareLink, pk=pk)
    share_links.revoke_link(link)
    messages.success(request, _("Revoked the link to %(title)s.") % {"title": link.title})
    return redirect("shares")


@requires(Right.SHARE)
@xframe_options_sameorigin
@csp_replace({"frame-ancestors": ["'self'"]})  # type: ignore[arg-type]
@require_GET
def preview(request: HttpRequest, what: str) -> HttpResponse:
    """Show exactly the page that a link to this object shows."""
    return shared_page(request, _shared(share_links.subject_at(what)), {})


@requires(Right.SHARE)
@require_GET
def preview_rows(request: HttpRequest, what: str) -> HttpResponse:
    """Return rows of the run in the preview."""
    response = shared_rows(request, _shared(share_links.subject_at(what)))
    if response is None:
        raise Http404
    return response


@requires(Right.SHARE)
@require_GET
def preview_picture(request: HttpRequest, what: str) -> HttpResponse:
    """Return the picture that a chat shows."""
    response = shared_picture(_shared(share_links.subject_at(what)))
    if response is None:
        raise Http404
    return response


def _shared(subject: Any) -> share_links.Shared:
    """Return an object that can be shared. Raises Http404, and PermissionDenied if sharing is off."""
    if not settings.SHARING:
        raise PermissionDenied
    shared = share_links.find_shared(subject) if subject else None
    if shared is None:
        raise Http404
    return shared


def _listed(link: ShareLink) -> dict[str, Any]:
    """Return a link with its state, and where somebody with a login sees its object; empty if it is gone."""
    shared = share_links.shared_by(link)
    state = share_links.link_state(link, shared)
    return {"link": link, "address": _address_of(shared) if shared else "", "state": state}


def _address_of(shared: share_links.Shared) -> str:
    if shared.checkpoint:
        return shared.checkpoint.get_absolute_url()
    for row in (shared.run, shared.job):
        if row:
            return row.get_absolute_url()
    return f"{reverse('compare' if shared.sides else 'search')}?{shared.subject.target}"


# The origin of share links.


def origin_of(request: HttpRequest) -> str:
    """Return the scheme and host of an allowed origin, as the browser sees it."""
    scheme = "https" if settings.IS_BEHIND_TLS else request.scheme
    return f"{scheme}://{request.get_host()}"


# A checkpoint as a share link shows it: its contents, without actions, its source and its neighbours.


# The tabs that every engine has and a share link shows. The raw record is left out.
COMMON_TABS = ("overview", "events")


def shared_detail(
    request: HttpRequest, run: Run, checkpoint: Checkpoint | None, *, compares: bool
) -> dict[str, Any]:
    """Return the context of the checkpoint's selected tab.

    ``compares`` if the link covers the checkpoint that it is compared with, too.
    """
    engine = engine_of(run.location)
    context: dict[str, Any] = {"run": run, "checkpoint": checkpoint, "engine": engine}
    context["at"] = checkpoint.checkpoint_id if checkpoint else ""
    if checkpoint is None:
        return context
    try:
        body = body_of(checkpoint)
    except NotReadable:
        # The reason may name a path.
        body, context["not_readable"] = {}, True
    contents = contents_at(checkpoint, body)
    context |= tab_choice(request, engine, contents, shareable_tabs(engine))
    context["reads_markdown"] = reads_markdown(request, engine, contents)
    context["is_too_deep"] = not body and "not_readable" not in context
    context |= {"contents": contents, "colours": branch_colours(run)}
    context["annotation_of_checkpoint"] = annotations_in(run).checkpoints.get(checkpoint.checkpoint_id)
    context |= _engine_tab(engine, context["tab"], checkpoint if compares else None, contents)
    if context["tab"] == "events":
        context |= event_page(request, contents.events)
    return context


def shareable_tabs(engine: Engine[Any]) -> dict[str, str]:
    """Return the label of each tab that a share link may show."""
    labels = {name: str(SHARED_TABS[name]) for name in COMMON_TABS}
    return labels | {tab.name: gettext(tab.label) for tab in engine.tabs if tab.is_shareable}


def _engine_tab(
    engine: Engine[Any], name: str, checkpoint: Checkpoint | None, contents: Contents
) -> dict[str, Any]:
    """Return the template and context of a tab of the engine's own; empty for another tab."""
    engine_tab = next((tab for tab in engine.tabs if tab.name == name and tab.is_shareable), None)
    if engine_tab is None:
        return {}
    before = contents_before(engine, engine_tab, checkpoint) if checkpoint else None
    return {"tab_template": engine_tab.template, **engine.tab_context(name, contents, before)}


# The page of each kind of shared object, the same in the preview and through the link.
#
# Anyone with the link can view it. It shows one object without links to anything else, and its address
# selects only which part of that object is shown.


Kind = ShareLink.Kind
Page = tuple[str, dict[str, Any]]
# What a stranger may do, and where a page's parts are, relative to its own address.
STRANGER: dict[str, Any] = {"can_run": False, "can_share": False, "shared_rows": "rows/"}


def shared_page(request: HttpRequest, shared: share_links.Shared, more: Mapping[str, Any]) -> HttpResponse:
    """Return the page of an object, or to htmx the part of it that the request asks for."""
    # Nothing may depend on who has opened it: the preview shows what a stranger sees.
    request.user = AnonymousUser()
    template, context = PAGES[shared.subject.kind](request, shared)
    response = render(request, template, {"shared": shared, **context, **more, **STRANGER})
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return _without_paths(response, shared)


def shared_rows(request: HttpRequest, shared: share_links.Shared) -> HttpResponse | None:
    """Return more rows of a shared run, or update those on the page; None for another kind."""
    if shared.subject.kind != Kind.RUN:
        return None
    request.user = AnonymousUser()
    context = _rows(request, shared, request.GET.get("at", ""))
    context |= {"is_part": True, "refreshes": "to" in request.GET, **STRANGER}
    return _without_paths(render(request, "runs/_rows.html", context), shared)


def shared_picture(shared: share_links.Shared) -> HttpResponse | None:
    """Return the picture of a shared run's lineage; None for another kind, or if it cannot be drawn."""
    if not shared.has_picture or shared.run is None:
        return None
    try:
        response = HttpResponse(share_links.lineage_png(shared.run), content_type="image/png")
    except NoLayout:
        return None
    response["X-Content-Type-Options"] = "nosniff"
    return response


def embedded_view(request: HttpRequest, shared: share_links.Shared, link: ShareLink) -> HttpResponse:
    """Return the newest rows of a shared run for a frame in another site's page."""
    assert shared.run
    request.user = AnonymousUser()
    context: dict[str, Any] = {"run": shared.run, "annotation": annotations_in(shared.run).run}
    context |= {"window": window_of(shared.run, Wanted(without_jobs=True)), "row_page": "../"}
    context |= {
        "link": link,
        "socket": f"/ws{request.path.removesuffix('embed/')}",
        "state": share_links.state_of(link),
        "shared": shared,
    }
    return _without_paths(render(request, "shared/embed.html", {**context, **STRANGER}), shared)


def _without_paths(response: HttpResponse, shared: share_links.Shared) -> HttpResponse:
    locations = Location.objects.select_related("project")
    if shared.locations:
        locations = locations.filter(pk__in=shared.locations)
    response.content = share_links.without_paths(
        response.content.decode(), share_links.paths_of(locations)
    ).encode()
    return response


def _run_page(request: HttpRequest, shared: share_links.Shared) -> Page:
    assert shared.run
    if request.headers.get("HX-Target") == "run-branches":
        return "runs/_branches.html", _branches(request, shared.run)
    at = request.GET.get("at", "")
    checkpoint = selected_checkpoint(shared.run, at)
    context = shared_detail(request, shared.run, checkpoint, compares=True)
    # Where a phone shows one of both, the newest output comes before the list.
    context |= {"is_open": bool(at) or "list" not in request.GET}
    if request.headers.get("HX-Target") == "detail":
        return "shared/_detail.html", context
    context |= _branches(request, shared.run) | {"annotation": annotations_in(shared.run).run}
    return "shared/run.html", context | _rows(request, shared, context["at"])


def _branches(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return the context of the branch picker, whose links lead to this page."""
    found = branch_list(run, request.GET.get("named", "").strip()[:MAX_QUERY])
    branch = request.GET.get("branch", "")
    finder = f"?{urlencode({'branch': branch})}"
    return {**found, "branch": branch, "branch_page": "", "branch_finder": finder}


def _rows(request: HttpRequest, shared: share_links.Shared, at: str) -> dict[str, Any]:
    """Return the context of the list of a run, which shows no jobs."""
    assert shared.run
    only = "failed" if request.GET.get("only") == "failed" else ""
    branch = request.GET.get("branch", "")
    pruned = request.GET.get("pruned") == "shown"
    top, bottom = (number_in(request.GET.get(name, "")) for name in ("from", "to"))
    collapsing = Collapsing.from_query(request.GET)
    wanted = Wanted(at, only, branch, top, bottom, pruned, collapsing=collapsing, without_jobs=True)
    context = {"run": shared.run, "at": at, "only": only, "branch": branch, "collapsing": collapsing}
    context |= {"keep": kept_query(request), "others": kept_query(request, PARAMETERS)}
    return context | {"window": window_of(shared.run, wanted)}


def _checkpoint_page(request: HttpRequest, shared: share_links.Shared) -> Page:
    assert shared.run and shared.checkpoint
    checkpoint: Checkpoint = shared.checkpoint
    context = shared_detail(request, shared.run, checkpoint, compares=False)
    if request.headers.get("HX-Target") == "detail":
        return "shared/_detail.html", context
    return "shared/checkpoint.html", context


def _comparison_page(request: HttpRequest, shared: share_links.Shared) -> Page:
    found = compared_checkpoints(shared.sides)
    shows_same = request.GET.get("show") == "all"
    heads = [{"side": side, "is_base": side is found.sides[0]} for side in found.sides]
    context: dict[str, Any] = {"compared": found, "shows_same": shows_same, "heads": heads}
    return "shared/comparison.html", context | table_context(request, found, heads)


def _search_page(request: HttpRequest, shared: share_links.Shared) -> Page:
    """Return the current results in the locations that the maker of the link may share."""
    assert shared.filters
    position = number_in(request.GET.get("before", ""), max_digits=15)
    context: dict[str, Any] = {"results": Results(), "conditions": conditions_of(shared.filters)}
    try:
        context |= {"results": search(shared.filters, position), "before": position}
    except SearchRefused as error:
        context["too_slow"] = error.message
    return "shared/search.html", context


def conditions_of(filters: Filters) -> list[tuple[str, str]]:
    """Return the label and value of each filter besides the words, without that of a location."""
    labels = {name: str(field.label) for name, field in SearchForm(filters).fields.items()}
    values = {name: value for name, value in asdict(filters).items() if name not in ("q", "location")}
    return [(labels.get(name, name), value) for name, value in values.items() if value]


def _job_page(request: HttpRequest, shared: share_links.Shared) -> Page:
    assert shared.job
    shown = shown_job(shared.job)
    context: dict[str, Any] = {"job": shared.job, "progress": shown.progress, "event_list": shown.event_list}
    return "shared/job.html", context


PAGES: dict[ShareLink.Kind, Callable[[HttpRequest, share_links.Shared], Page]] = {
    Kind.RUN: _run_page,
    Kind.CHECKPOINT: _checkpoint_page,
    Kind.COMPARISON: _comparison_page,
    Kind.SEARCH: _search_page,
    Kind.JOB: _job_page,
}


# What a share link shows to anybody who has it. Only these views know its token, and they only read.


# Its path is the link's, so that each link is counted once in a browser session.
VIEWED_COOKIE = f"forkline_viewed_{settings.BROWSER_PORT}"
HEADERS = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow, noarchive"}

View = Callable[[HttpRequest, ShareLink, share_links.Shared], HttpResponse]


def through_link(view: View) -> View:
    """Mark a view that a share link leads to: it needs no login, accepts no form, and sends no referrer."""

    @wraps(view)
    def shown(request: HttpRequest, token: str) -> HttpResponse:
        found = share_links.link_for(token)
        if found is None:
            response = dead_link(request)
        else:
            with sharing_as(found[0].made_by):
                response = view(request, *found)
        for name, value in HEADERS.items():
            response[name] = value
        return response

    decorated: Any = login_not_required(require_safe(shown))
    decorated.through_link = True
    return decorated  # type: ignore[no-any-return]


@through_link
def show(request: HttpRequest, link: ShareLink, shared: share_links.Shared) -> HttpResponse:
    """Show the object of a link. A program that makes a preview of the link gets no content."""
    act_as_link(link.pk)
    if share_links.is_program(request):
        return render(
            request, "shared/unfurled.html", {"link": link, "shared": shared, **_image(request, link, shared)}
        )
    maker = link.made_by_id
    is_new = (
        request.user.pk != maker and VIEWED_COOKIE not in request.COOKIES and share_links.is_view(request)
    )
    more = {"link": link, "socket": f"/ws{request.path}", "state": share_links.state_of(link)}
    more |= _image(request, link, shared)
    response = shared_page(request, shared, more)
    if is_new:
        link.count_view()
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(
            VIEWED_COOKIE, "1", path=request.path, secure=secure, httponly=True, samesite="Strict"
        )
    return response


def in_frames(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Allow the pages of the configured origins, and no others, to show this view in a frame."""

    @wraps(view)
    def framed(request: HttpRequest, token: str) -> HttpResponse:
        response: Any = view(request, token)
        if settings.EMBED_ORIGINS:
            response.xframe_options_exempt = True
            response._csp_replace = {"frame-ancestors": settings.EMBED_ORIGINS}
        return response  # type: ignore[no-any-return]

    return framed


@in_frames
@through_link
def embed(request: HttpRequest, link: ShareLink, shared: share_links.Shared) -> HttpResponse:
    """Show the lineage of a shared run in a frame. This counts no view, which needs a cookie."""
    act_as_link(link.pk)
    if not settings.EMBED_ORIGINS or shared.subject.kind != Kind.RUN:
        return dead_link(request)
    if share_links.is_program(request):
        return render(request, "shared/unfurled.html", {"link": link, "shared": shared})
    return embedded_view(request, shared, link)


@through_link
def rows(request: HttpRequest, link: ShareLink, shared: share_links.Shared) -> HttpResponse:
    """Return rows of a shared run."""
    return shared_rows(request, shared) or dead_link(request)


@through_link
def picture(request: HttpRequest, link: ShareLink, shared: share_links.Shared) -> HttpResponse:
    """Return the picture of a shared run's lineage, if the maker of the link chose that it unfurls."""
    return (shared_picture(shared) if link.unfurls else None) or dead_link(request)


def _image(request: HttpRequest, link: ShareLink, shared: share_links.Shared) -> dict[str, str]:
    """Return the address of the picture, which has to be absolute; empty if there is none."""
    return (
        {"picture": f"{origin_of(request)}{request.path}picture.png"}
        if link.unfurls and shared.has_picture
        else {}
    )


def dead_link(request: HttpRequest) -> HttpResponse:
    """Return the page of every link that does not work, which does not say why or what it led to."""
    match = request.resolver_match
    in_frame = bool(match and match.url_name == "shared-embed")
    return render(request, "shared/dead.html", {"in_frame": in_frame}, status=404)
