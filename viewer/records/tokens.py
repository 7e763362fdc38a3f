"""API tokens: who makes and revokes them, and which one a program has sent."""

import hashlib
import re
import secrets
from collections.abc import Collection
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from viewer.models import ApiToken, Level, Location
from viewer.models.roles import access_of, unrestricted
from viewer.records.audit import Action, Audited, record

# What begins every token, so that people and programs that look for secrets recognise one.
PREFIX = "fkl_"
TOKEN_BYTES = 32
TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
# The choices of how long a token works, in days. The first is the default.
EXPIRY_DAYS = (90, 7, 30, 365)
# How exactly its last use is stored: otherwise each request would write.
USED_EVERY = timedelta(minutes=1)


class TokenRefused(ValueError):
    """A person may not make such a token."""


def hash_of(text: str) -> str:
    """Return what is stored of a token. It needs no salt: a token has 256 random bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def make_token(
    user: User,
    name: str,
    level: Level,
    locations: Collection[Location] | None = None,
    *,
    days: int = EXPIRY_DAYS[0],
) -> tuple[ApiToken, str]:
    """Store a token for these locations, or without them, for all that its person sees.

    Return it with its text, which cannot be found out again. Raises TokenRefused if the person lacks the role
    at one of the locations.
    """
    access = access_of(user)
    levels = [access.highest] if locations is None else [access.level_at(one.pk) for one in locations]
    if not levels or min(levels) < level:
        raise TokenRefused
    text = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    now = timezone.now()
    with transaction.atomic():
        token = ApiToken.objects.create(
            token_hash=hash_of(text),
            user=user,
            name=name,
            level=level,
            is_everywhere=locations is None,
            created_at=now,
            expires_at=now + timedelta(days=days),
        )
        token.locations.set(locations or [])
        record(Action.ADDED, Audited.TOKEN, token.pk, f"{user.get_username()}: {level.name.lower()}")
    return token, text


def revoke_token(token: ApiToken) -> bool:
    """Record that a token no longer works. Return False if it was revoked before."""
    with transaction.atomic():
        if revoked := token.revoke():
            record(Action.REVOKED, Audited.TOKEN, token.pk)
    return revoked


def token_for(text: str) -> ApiToken | None:
    """Return the token with this text; None if there is none that works.

    The lookup compares hashes, so its duration says nothing about other tokens.
    """
    if not TOKEN.fullmatch(text):
        return None
    with unrestricted():
        token = ApiToken.objects.select_related("user").filter(token_hash=hash_of(text)).first()
    return token if token and token.works else None


def record_use(token: ApiToken) -> None:
    """Store that a token was used."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_EVERY:
        unused = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)
