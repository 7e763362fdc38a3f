"""Invitations and API tokens: making and revoking them, and what somebody who sends one may do."""

import hashlib
import re
import secrets
from collections.abc import Collection
from datetime import timedelta

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.locks import exclusive_transaction
from viewer.models import ApiToken, Invitation, InvitationState, Level, Location, Right, Team
from viewer.models.roles import access_of, unrestricted
from viewer.records.audit import Action, Audited, act_as, record
from viewer.records.permissions import add_member, give, may, may_everywhere

TOKEN_BYTES = 32


def hash_of(text: str) -> str:
    """Return what is stored of a token. It needs no salt: a token has 256 random bits."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


# Inviting people: who may make an invitation, when its link works, and what accepting it does.

# The choices of how long a link works, in days. The first is the default.
INVITATION_DAYS = (7, 1, 30)
# Longer texts are no tokens.
MAX_TOKEN = 100


class InvitationRefused(ValidationError):
    """The invitation cannot be made or accepted. The message says why."""


def invite(
    maker: User | None,
    *,
    level: Level | None = None,
    location: Location | None = None,
    team: Team | None = None,
    days: int = INVITATION_DAYS[0],
) -> tuple[Invitation, str]:
    """Store an invitation. Return it with its token, which cannot be found out again.

    Without a maker, somebody at the terminal has made it, who may do everything. Raises InvitationRefused.
    """
    if level is None and team is None:
        raise InvitationRefused(_("Choose a role, a team or both."))
    if level is None and location:
        raise InvitationRefused(_("Choose the role on this location."))
    token, now = secrets.token_urlsafe(TOKEN_BYTES), timezone.now()
    invitation = Invitation(
        token_hash=hash_of(token),
        team=team,
        level=level,
        location=location,
        made_by=maker,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    with exclusive_transaction("invitations"):
        if not _may_be_given(invitation):
            raise InvitationRefused(_("Only an admin may invite people, and to teams one of all locations."))
        invitation.save()
        record(Action.ADDED, Audited.INVITATION, invitation.pk, _detail(invitation))
    return invitation, token


def revoke_invitation(invitation: Invitation) -> bool:
    """Make an invitation that has not been used stop working. Return whether this did."""
    with exclusive_transaction("invitations"):
        open_one = Invitation.objects.filter(pk=invitation.pk, used_at=None, revoked_at=None)
        was_open = bool(open_one.update(revoked_at=timezone.now()))
        if was_open:
            record(Action.REVOKED, Audited.INVITATION, invitation.pk)
    return was_open


def open_invitations() -> QuerySet[Invitation]:
    """Return the invitations that may still be used, the newest first."""
    rows: QuerySet[Invitation] = Invitation.objects.select_related("team", "location", "made_by")
    return rows.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


def state_of(invitation: Invitation) -> InvitationState:
    """Whether an invitation works, or why not."""
    if invitation.used_at:
        return InvitationState.USED
    if invitation.revoked_at:
        return InvitationState.REVOKED
    if invitation.has_expired:
        return InvitationState.EXPIRED
    return InvitationState.WORKS if _may_be_given(invitation) else InvitationState.VOID


def invitation_with(token: str) -> Invitation | None:
    """Return the invitation with this token, whatever its state; None if there is none.

    The lookup compares hashes, so its duration says nothing about other tokens.
    """
    if len(token) > MAX_TOKEN:
        return None
    with unrestricted():
        rows = Invitation.objects.select_related("team", "location__host", "made_by")
        return rows.filter(token_hash=hash_of(token)).first()


def accept(token: str, person: User) -> User:
    """Use an invitation, once: store a new person, and give them or somebody with an account what it gives.

    Of two simultaneous uses, one succeeds. Raises InvitationRefused if the link does not work, and
    ValidationError for a name that is taken or invalid. Then nothing is stored.
    """
    with unrestricted(), exclusive_transaction("invitations"):
        invitation = invitation_with(token)
        if invitation is None or state_of(invitation) != InvitationState.WORKS:
            raise InvitationRefused(_("This invitation was already used or revoked."))
        if person.pk is None:
            person.full_clean()
            person.save()
            record(Action.ADDED, Audited.USER, person.pk, person.get_username())
        unused = Invitation.objects.filter(pk=invitation.pk, used_at=None, revoked_at=None)
        if not unused.update(used_at=timezone.now(), used_by=person):
            raise InvitationRefused(_("This invitation was already used or revoked."))
        act_as(person)
        record(Action.ACCEPTED, Audited.INVITATION, invitation.pk, _detail(invitation))
        if invitation.level and _is_higher(person, invitation):
            give(person, Level(invitation.level), invitation.location)
        if invitation.team:
            add_member(invitation.team, person)
    return person


def _is_higher(person: User, invitation: Invitation) -> bool:
    """Whether the invitation gives more than the person's own role there, which it would replace."""
    own = person.roles.filter(location=invitation.location).values_list("level", flat=True).first()
    return (own or 0) < (invitation.level or 0)


def _may_be_given(invitation: Invitation) -> bool:
    """Whether the maker may, at this moment, give what the invitation gives."""
    maker = invitation.made_by
    if maker is None:
        return True
    # Rights may have changed since they were read.
    maker = User.objects.get(pk=maker.pk)
    if invitation.team or invitation.location is None:
        return may_everywhere(maker, Right.MEMBERS)
    return may(maker, Right.MEMBERS, invitation.location.pk)


def _detail(invitation: Invitation) -> str:
    where = invitation.location.path if invitation.location else "all locations"
    role = f"{Level(invitation.level).name.lower()} on {where}" if invitation.level else ""
    return ", ".join(filter(None, [role, f"team {invitation.team}" if invitation.team else ""]))


# API tokens: who makes and revokes them, and which one a program has sent.

# What begins every token, so that people and programs that look for secrets recognise one.
PREFIX = "fkl_"
TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
# The choices of how long a token works, in days. The first is the default.
EXPIRY_DAYS = (90, 7, 30, 365)
# How exactly its last use is stored: otherwise each request would write.
USED_EVERY = timedelta(minutes=1)


class TokenRefused(ValueError):
    """A person may not make such a token."""


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
