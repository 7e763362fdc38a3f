"""The sessions of a person: which there are, and ending them."""

from allauth.usersessions.models import UserSession
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from viewer.records.audit import Action, Audited, record


def sessions_of(user: User) -> list[UserSession]:
    """Return the open sessions of a user, the newest first."""
    found: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda session: session.created_at, reverse=True)


def end_sessions(user: User, *, but: str = "") -> int:
    """End all sessions of a user, but the one with this key. Return their number.

    Their open pages end within a second (viewer/web/live/admission.py).
    """
    # Also those that began before sessions were listed.
    open_ones = Session.objects.filter(expire_date__gt=timezone.now()).exclude(session_key=but)
    keys = [
        session.session_key
        for session in open_ones.iterator()
        if session.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    with transaction.atomic():
        Session.objects.filter(session_key__in=keys).delete()
        UserSession.objects.filter(user=user).exclude(session_key=but).delete()
        record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()}: ended {len(keys)} sessions")
    return len(keys)


def end_session(user: User, pk: int) -> bool:
    """End one session of a user. Return False if there is none with this key."""
    session = UserSession.objects.filter(user=user, pk=pk).first()
    if session is None:
        return False
    with transaction.atomic():
        session.end()
        record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()}: ended a session")
    return True
