"""Names who sends a request, and records what they opened and tried in vain (viewer/records/audit.py).

What a request has changed is recorded where it is changed, in the same transaction.
"""

from collections.abc import Callable
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.cache.backends.locmem import LocMemCache
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from checkpoint_site.middleware.throttle import address_of
from viewer.records.audit import Action, Actor, ActorKind, Audited, Result, act_as, acting, record

# What opening each address is. Lists, and parts of a page that show no more than the page, are not recorded.
READS = {
    "location": (Action.OPENED, Audited.LOCATION),
    "location-keys": (Action.OPENED, Audited.LOCATION),
    "project": (Action.OPENED, Audited.PROJECT),
    "run": (Action.OPENED, Audited.RUN),
    "run-timeline": (Action.OPENED, Audited.RUN),
    "run-export": (Action.EXPORTED, Audited.RUN),
    "checkpoint-raw": (Action.EXPORTED, Audited.CHECKPOINT),
    "hidden-values": (Action.OPENED, Audited.CHECKPOINT),
    "checkpoint-history": (Action.OPENED, Audited.CHECKPOINT),
    "checkpoint-calls": (Action.OPENED, Audited.CALL),
    "checkpoint-call": (Action.OPENED, Audited.CALL),
    "code-difference": (Action.OPENED, Audited.CHECKPOINT),
    "fork": (Action.OPENED, Audited.CHECKPOINT),
    "resume": (Action.OPENED, Audited.CHECKPOINT),
    "publish": (Action.OPENED, Audited.CHECKPOINT),
    "new-sweep": (Action.OPENED, Audited.CHECKPOINT),
    "replay": (Action.OPENED, Audited.CALL),
    "replay-all": (Action.OPENED, Audited.CALL),
    "job-answers": (Action.OPENED, Audited.JOB),
    "collection": (Action.OPENED, Audited.COLLECTION),
    "collection-item": (Action.OPENED, Audited.COLLECTION),
    "collection-export": (Action.EXPORTED, Audited.COLLECTION),
    "collection-replay": (Action.OPENED, Audited.COLLECTION),
    "compare": (Action.OPENED, Audited.COMPARISON),
    "compare-export": (Action.EXPORTED, Audited.COMPARISON),
    "search": (Action.SEARCHED, Audited.SEARCH),
    "job": (Action.OPENED, Audited.JOB),
    "job-timeline": (Action.OPENED, Audited.JOB),
    "sweep": (Action.OPENED, Audited.SWEEP),
    "question": (Action.OPENED, Audited.QUESTION),
    "comments": (Action.OPENED, Audited.RUN),
    "comparison-comments": (Action.OPENED, Audited.COMPARISON),
    "question-comments": (Action.OPENED, Audited.QUESTION),
    "shares": (Action.OPENED, Audited.SHARE),
    "shared": (Action.OPENED, Audited.SHARE),
    "shared-embed": (Action.OPENED, Audited.SHARE),
    "audit": (Action.OPENED, Audited.AUDIT),
    "audit-export": (Action.EXPORTED, Audited.AUDIT),
    "roles": (Action.OPENED, Audited.TEAM),
    "tokens": (Action.OPENED, Audited.TOKEN),
    "person": (Action.OPENED, Audited.USER),
    "api-run": (Action.OPENED, Audited.RUN),
    "api-checkpoints": (Action.OPENED, Audited.RUN),
    "api-checkpoint": (Action.OPENED, Audited.CHECKPOINT),
    "api-compare": (Action.OPENED, Audited.COMPARISON),
    "api-search": (Action.SEARCHED, Audited.SEARCH),
    "api-job": (Action.OPENED, Audited.JOB),
    "api-questions": (Action.OPENED, Audited.QUESTION),
    "api-export": (Action.EXPORTED, Audited.RUN),
    "api-sweep": (Action.OPENED, Audited.SWEEP),
    "api-job-outcome": (Action.OPENED, Audited.JOB),
    # One that only shows a plan, or reads, opens the row that it names.
    **{
        f"api-command-{name}": (Action.OPENED, Audited.CHECKPOINT)
        for name in ("comments", "note", "fork", "resume", "publish", "sweep", "bulk", "replay")
    },
    "api-command-list": (Action.OPENED, Audited.LOCATION),
    "api-command-answer": (Action.OPENED, Audited.QUESTION),
    "api-command-keys": (Action.OPENED, Audited.LOCATION),
    "api-command-prune": (Action.OPENED, Audited.LOCATION),
    "api-command-shares": (Action.OPENED, Audited.SHARE),
    "api-command-roles": (Action.OPENED, Audited.TEAM),
    "api-command-invitations": (Action.OPENED, Audited.INVITATION),
}
# Requested by htmx as a part of a page, but for more than the page shows.
PARTS = {"checkpoint-history"}
# What each actor has opened at this web server within an hour.
pages = LocMemCache("pages", {"timeout": 60 * 60, "max_entries": 10_000})
# What sending a form to each address does. An entry is stored here only if nothing was done.
ACTS = {
    "login-link": (Action.LOGGED_IN, Audited.USER),
    "invitation": (Action.ACCEPTED, Audited.INVITATION),
    "password-reset": (Action.CHANGED, Audited.USER),
    "account-mail-confirm": (Action.CHANGED, Audited.USER),
    "location-add": (Action.ADDED, Audited.LOCATION),
    "location-path": (Action.CHANGED, Audited.LOCATION),
    "location-pool": (Action.CHANGED, Audited.LOCATION),
    "location-cancel-import": (Action.CANCELLED, Audited.LOCATION),
    "location-replaced": (Action.CHANGED, Audited.LOCATION),
    "location-remove": (Action.REMOVED, Audited.LOCATION),
    "prune": (Action.PRUNED, Audited.LOCATION),
    "project": (Action.CHANGED, Audited.PROJECT),
    "project-limits": (Action.CHANGED, Audited.PROJECT),
    "project-keys": (Action.CHANGED, Audited.PROJECT),
    "project-isolation": (Action.CHANGED, Audited.PROJECT),
    "new-run": (Action.STARTED, Audited.JOB),
    "fork": (Action.STARTED, Audited.JOB),
    "resume": (Action.STARTED, Audited.JOB),
    "hidden-reveal": (Action.REVEALED, Audited.CHECKPOINT),
    "publish": (Action.STARTED, Audited.JOB),
    "replay": (Action.STARTED, Audited.JOB),
    "replay-all": (Action.STARTED, Audited.SWEEP),
    "compare-score": (Action.STARTED, Audited.JOB),
    "new-sweep": (Action.STARTED, Audited.SWEEP),
    "bulk-fork": (Action.STARTED, Audited.SWEEP),
    "bulk-resume": (Action.STARTED, Audited.SWEEP),
    "collection-new": (Action.ADDED, Audited.COLLECTION),
    "collection-add": (Action.ADDED, Audited.COLLECTION),
    "collection-change": (Action.CHANGED, Audited.COLLECTION),
    "collection-delete": (Action.REMOVED, Audited.COLLECTION),
    "collection-import": (Action.ADDED, Audited.COLLECTION),
    "collection-item": (Action.CHANGED, Audited.COLLECTION),
    "collection-replay": (Action.STARTED, Audited.SWEEP),
    "collection-item-remove": (Action.REMOVED, Audited.COLLECTION),
    "annotation": (Action.CHANGED, Audited.RUN),
    "annotation-star": (Action.CHANGED, Audited.RUN),
    "comment-add": (Action.ADDED, Audited.RUN),
    "comparison-comment-add": (Action.ADDED, Audited.COMPARISON),
    "question-comment-add": (Action.ADDED, Audited.QUESTION),
    "comment-edit": (Action.CHANGED, Audited.RUN),
    "comment-delete": (Action.REMOVED, Audited.RUN),
    "comment-resolve": (Action.CHANGED, Audited.RUN),
    "share": (Action.SHARED, Audited.SHARE),
    "share-revoke": (Action.REVOKED, Audited.SHARE),
    "day-limits": (Action.CHANGED, Audited.LIMITS),
    "job-start": (Action.CHANGED, Audited.JOB),
    "job-continue": (Action.CHANGED, Audited.JOB),
    "job-cancel": (Action.CANCELLED, Audited.JOB),
    "job-give-up": (Action.CANCELLED, Audited.JOB),
    "question-answer": (Action.ANSWERED, Audited.QUESTION),
    "invitation-new": (Action.ADDED, Audited.INVITATION),
    "invitation-revoke": (Action.REVOKED, Audited.INVITATION),
    "role-give": (Action.CHANGED, Audited.TEAM),
    "role-take": (Action.CHANGED, Audited.TEAM),
    "team-change": (Action.CHANGED, Audited.TEAM),
    "team-quotas": (Action.CHANGED, Audited.TEAM),
    "sessions-end": (Action.CHANGED, Audited.USER),
    "person-reset-link": (Action.ADDED, Audited.USER),
    "person-factors-remove": (Action.REMOVED, Audited.USER),
    "person-active": (Action.CHANGED, Audited.USER),
    "token-new": (Action.ADDED, Audited.TOKEN),
    "token-revoke": (Action.REVOKED, Audited.TOKEN),
    "notifications-save": (Action.CHANGED, Audited.USER),
    "host-drain": (Action.CHANGED, Audited.HOST),
    "host-remove": (Action.REMOVED, Audited.HOST),
    "api-fork": (Action.STARTED, Audited.JOB),
    "api-resume": (Action.STARTED, Audited.JOB),
    "api-publish": (Action.STARTED, Audited.JOB),
    "api-replay": (Action.STARTED, Audited.JOB),
    "api-sweep-new": (Action.STARTED, Audited.SWEEP),
    "api-cancel": (Action.CANCELLED, Audited.JOB),
    "api-answer": (Action.ANSWERED, Audited.QUESTION),
    "api-note": (Action.CHANGED, Audited.RUN),
    "api-command-fork": (Action.STARTED, Audited.JOB),
    "api-command-resume": (Action.STARTED, Audited.JOB),
    "api-command-publish": (Action.STARTED, Audited.JOB),
    "api-command-run": (Action.STARTED, Audited.JOB),
    "api-command-score": (Action.STARTED, Audited.JOB),
    "api-command-replay": (Action.STARTED, Audited.JOB),
    "api-command-sweep": (Action.STARTED, Audited.SWEEP),
    "api-command-bulk": (Action.STARTED, Audited.SWEEP),
    "api-command-note": (Action.CHANGED, Audited.RUN),
    "api-command-comments": (Action.ADDED, Audited.RUN),
    "api-command-collection": (Action.CHANGED, Audited.COLLECTION),
    "api-command-answer": (Action.ANSWERED, Audited.QUESTION),
    "api-command-cancel": (Action.CANCELLED, Audited.JOB),
    "api-command-prune": (Action.PRUNED, Audited.LOCATION),
    "api-command-remove": (Action.REMOVED, Audited.LOCATION),
    "api-command-shares": (Action.REVOKED, Audited.SHARE),
    "api-command-hosts": (Action.CHANGED, Audited.HOST),
}


class Audit:
    """Middleware: names the actor of a request, and records it unless what it has called did.

    Hosts check what the actor may ask, also without an audit trail.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = acting.set(None)
        try:
            response = self.get_response(request)
            if settings.AUDIT and (actor := acting.get()) and not actor.recorded:
                record_request(request, response, actor)
        finally:
            acting.reset(token)
        return response

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        """Name the actor. Views that respond without a data folder have none."""
        if getattr(view, "without_data", False):
            return
        user = request.user if request.user.is_authenticated else None
        kind = ActorKind.USER if user else ActorKind.VISITOR
        token = getattr(request, "token", None)
        acting.set(Actor(kind, request.user.get_username(), address_of(request), user, token))


def record_request(request: HttpRequest, response: HttpResponseBase, actor: Actor) -> None:
    """Record that something was opened, or that nothing was done."""
    match = request.resolver_match
    assert match
    route, status = match.url_name or "", HTTPStatus(response.status_code)
    # Commands are sent to the HTTP interface also if they only read.
    is_sent = request.method == "POST" and not (actor.opened and route.startswith("api-command-"))
    action, kind = (ACTS if is_sent else READS).get(route, (None, None))
    if action is None or kind is None or request.method == "HEAD":
        return
    is_refused = status == HTTPStatus.FORBIDDEN
    # Anybody could fill the database, so only what is throttled is recorded of strangers.
    if actor.kind == ActorKind.VISITOR and not (
        route in {"login-link", "invitation", "password-reset"} and is_refused
    ):
        return
    # Only keys of rows. Other parts of an address are texts that anybody may have typed.
    keys = "/".join(str(value) for value in match.kwargs.values() if isinstance(value, UUID | int))
    if is_sent or is_refused:
        record(action, kind, keys, result=Result.NOT_DONE)
        return
    if status != HTTPStatus.OK:
        return
    kind, key, detail = actor.opened or (kind, keys, "")
    # Anybody can send these headers. A part shows nothing new only if its page was opened.
    is_part = "HX-Request" in request.headers and "HX-Boosted" not in request.headers
    shown = repr((actor.kind, actor.name, actor.address, kind, key, detail)).encode()
    page = sha256(shown).hexdigest()
    if is_part and action == Action.OPENED and route not in PARTS and pages.get(page):
        return
    record(action, kind, key, detail)
    pages.set(page, True)


@receiver(user_logged_in)
def record_login(user: Any, **_more: Any) -> None:
    """Record a login, in the transaction that uses a login link."""
    act_as(user)
    record(Action.LOGGED_IN, Audited.USER, user.pk)


@receiver(user_logged_out)
def record_logout(user: Any, **_more: Any) -> None:
    """Record a logout."""
    if user:
        record(Action.LOGGED_OUT, Audited.USER, user.pk)


@receiver(user_login_failed)
def record_failed_login(**_more: Any) -> None:
    """Record a refused login without the name, in whose place people type passwords."""
    if acting.get():
        record(Action.LOGGED_IN, Audited.USER, result=Result.NOT_DONE)
