"""Share links: who makes them, and when they work."""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils import timezone

from viewer.models import Job, Location, Run, ShareLink
from viewer.models.roles import unrestricted
from viewer.presentation.shared_objects import Shared, Subject, find_shared, subject_in
from viewer.records.audit import Action, Audited, record
from viewer.records.permissions import can_share, sharing_as

# Which requests to a share link are views of a person.


# Programs that fetch a link where it is pasted, and crawlers. A browser has none of these in its name.
PROGRAM = re.compile(
    r"bot\b|bot/|crawl|spider|preview|facebookexternalhit|facebot|whatsapp|slack|telegram|discord|skype|teams"
    r"|linkedin|embedly|iframely|mattermost|zulip|curl/|wget|python|go-http|okhttp|headless(?!chrome)|^$",
    re.IGNORECASE,
)


def is_program(request: HttpRequest) -> bool:
    """Whether a program sent the request, such as a chat that shows a preview of the link."""
    return bool(PROGRAM.search(request.headers.get("User-Agent", "")))


def is_view(request: HttpRequest) -> bool:
    """Whether a person opened the page: not a part of it, not in advance, and not only its headers."""
    is_ahead = "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", ""))
    is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    return request.method == "GET" and is_page and not is_ahead and "HX-Request" not in request.headers


# The object that the address of a page shows.


Kind = ShareLink.Kind


def subject_of(address: str, *, whole_run: bool = False) -> Subject | None:
    """Return what a page of this address, copied from a browser, is about; None if that cannot be shared.

    The page of a run with a selected checkpoint is about the checkpoint, unless ``whole_run``.
    """
    try:
        parts = urlsplit(address)
        found = resolve(parts.path)
    except (ValueError, Resolver404):
        return None
    if found.url_name == "run":
        selected = parse_qs(parts.query, max_num_fields=100).get("at", [""])[0]
        if selected and not whole_run:
            return subject_in(Kind.CHECKPOINT, f"{found.kwargs['uid']}/{selected}")
        return subject_in(Kind.RUN, str(found.kwargs["uid"]))
    if found.url_name == "job":
        return subject_in(Kind.JOB, str(found.kwargs["pk"]))
    kinds = {"compare": Kind.COMPARISON, "search": Kind.SEARCH}
    return subject_in(kinds[found.url_name], parts.query) if found.url_name in kinds else None


# Making share links, and finding the one that a token belongs to.


# The choices of how long a link works, in days. The first is the default.
EXPIRY_DAYS = (7, 1, 30, 90)
TOKEN_BYTES = 32
# Longer texts are no tokens.
MAX_TOKEN = 100


def hash_of(token: str) -> str:
    """Return what is stored of a token. It needs no salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


def make_link(
    shared: Shared, maker: User, *, days: int = EXPIRY_DAYS[0], unfurls: bool = False
) -> tuple[ShareLink, str]:
    """Store a link to an object. Return it with its token, which cannot be found out again."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    now = timezone.now()
    with transaction.atomic():
        link = ShareLink.objects.create(
            token_hash=hash_of(token),
            kind=shared.subject.kind,
            target=shared.subject.target,
            title=shared.title[:300],
            locations=list(shared.locations),
            made_by=maker,
            created_at=now,
            expires_at=now + timedelta(days=days),
            unfurls=unfurls,
        )
        record(Action.SHARED, Audited.SHARE, link.pk, link.kind)
    return link, token


def revoke_link(link: ShareLink) -> None:
    """Record that the link no longer works. Its open pages end at once."""
    with transaction.atomic():
        link.revoke()
        record(Action.REVOKED, Audited.SHARE, link.pk)


def link_for(token: str) -> tuple[ShareLink, Shared] | None:
    """Return the link with this token and its object; None if there is none that works.

    The lookup compares hashes, so its duration says nothing about other tokens.
    """
    if len(token) > MAX_TOKEN:
        return None
    link = _link_with(token)
    if link is None or not is_alive(link):
        return None
    shared = shared_by(link)
    return (link, shared) if shared else None


def _link_with(token: str) -> ShareLink | None:
    with unrestricted():
        return ShareLink.objects.select_related("made_by").filter(token_hash=hash_of(token)).first()


def is_alive(link: ShareLink) -> bool:
    """Whether a link works, apart from whether its object still exists.

    Its maker must still be allowed to share its locations, and none may have been removed: the same location
    added again is another one.
    """
    if not settings.SHARING or link.revoked_at or link.has_expired or not can_share(link.made_by):
        return False
    with sharing_as(link.made_by):
        return Location.objects.filter(pk__in=link.locations).count() == len(link.locations)


class LinkState(StrEnum):
    """Whether a link works, or why not."""

    WORKS = "works"
    REVOKED = "revoked"
    EXPIRED = "expired"
    # Its object is gone, or its maker may not share any more.
    DEAD = "dead"


def link_state(link: ShareLink) -> LinkState:
    """The state of a link."""
    if link.revoked_at:
        return LinkState.REVOKED
    if link.has_expired:
        return LinkState.EXPIRED
    return LinkState.WORKS if is_alive(link) and shared_by(link) else LinkState.DEAD


def shared_by(link: ShareLink) -> Shared | None:
    """Return the object of a link; None if it is gone."""
    subject = subject_in(link.kind, link.target)
    with sharing_as(link.made_by):
        shared = find_shared(subject) if subject else None
    # An object that has moved elsewhere was not what its maker saw.
    return shared if shared and set(shared.locations) <= set(link.locations) else None


# What an open page of a share link depends on, as values to compare.


# The columns of a run and of a job that differ whenever its page would.
RUN_COLUMNS = ("checkpoint_count", "branch_count", "lane_count", "last_at", "status", "head", "name")
JOB_COLUMNS = ("status", "limit_hit", "started_at", "ended_at")


def state_of(link: ShareLink) -> str | None:
    """Return a text that differs whenever the page of the link would; None if the link does not work."""
    if not is_alive(link):
        return None
    read = READERS.get(link.kind)
    with sharing_as(link.made_by):
        return read(link.target) if read else ""


def states_of(keys: Iterable[str]) -> Mapping[str, str | None]:
    """Return the states of these links by their keys. A link that is gone does not work."""
    wanted = list(keys)
    links = ShareLink.objects.select_related("made_by").filter(pk__in=wanted) if wanted else ()
    states = {str(link.pk): state_of(link) for link in links}
    return {key: states.get(key) for key in wanted}


def open_link(token: str) -> ShareLink | None:
    """Return the link with this token, if it works."""
    link = _link_with(token)
    return link if link and state_of(link) is not None else None


def _run(target: str) -> str | None:
    found = Run.objects.filter(uid=target).values_list(*RUN_COLUMNS).first()
    return None if found is None else "|".join(map(str, found))


def _job(target: str) -> str | None:
    jobs = Job.objects.filter(pk=target).annotate(last=Max("events__seq"))
    found = jobs.values_list(*JOB_COLUMNS, "last").first()
    return None if found is None else "|".join(map(str, found))


def _checkpoint(target: str) -> str | None:
    run, _slash, name = target.partition("/")
    found = Run.objects.filter(uid=run, checkpoints__checkpoint_id=name).exists()
    return "" if found else None


READERS: dict[str, Callable[[str], str | None]] = {
    Kind.RUN: _run,
    Kind.JOB: _job,
    Kind.CHECKPOINT: _checkpoint,
}
