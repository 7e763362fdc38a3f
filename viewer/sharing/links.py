"""Making share links, and finding the one that a token belongs to."""

import hashlib
import secrets
from datetime import timedelta
from enum import StrEnum

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from viewer.access.permissions import can_share
from viewer.models import Location, ShareLink
from viewer.sharing.subjects import Shared, find_shared, subject_in

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
    return link, token


def link_for(token: str) -> tuple[ShareLink, Shared] | None:
    """Return the link with this token and its object; None if there is none that works.

    The lookup compares hashes, so its duration says nothing about other tokens.
    """
    if len(token) > MAX_TOKEN:
        return None
    link = ShareLink.objects.select_related("made_by").filter(token_hash=hash_of(token)).first()
    if link is None or not is_alive(link):
        return None
    shared = shared_by(link)
    return (link, shared) if shared else None


def is_alive(link: ShareLink) -> bool:
    """Whether a link works, apart from whether its object still exists.

    Its maker must still be allowed to share, and no location may have been removed: the same location added
    again is another one.
    """
    if not settings.SHARING or link.revoked_at or link.has_expired or not can_share(link.made_by):
        return False
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
    shared = find_shared(subject) if subject else None
    # An object that has moved elsewhere was not what its maker saw.
    return shared if shared and set(shared.locations) <= set(link.locations) else None
