"""Accounts: how people get one, log in and are helped, their sessions and mail, and their API tokens.

The rows of invitations and API tokens have hashes of their tokens, which cannot be found out again.
"""

import logging
import queue
import threading
from collections.abc import Collection
from datetime import timedelta
from smtplib import SMTPException
from urllib.parse import urlencode

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.sessions.models import Session
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.http import base36_to_int, int_to_base36
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override
from sesame.utils import get_parameters

from viewer.data_folder.locks import exclusive_transaction
from viewer.models import ApiToken, Invitation, InvitationState, Level, Location, Right, Team
from viewer.models.accounts import (
    API_TOKEN,
    API_TOKEN_PREFIX,
    MAX_TOKEN,
    chosen_language,
    hash_of,
    new_token,
)
from viewer.models.roles import access_of, unrestricted
from viewer.records.audit import Action, Audited, act_as, record
from viewer.records.permissions import MAY, May, account_named, add_member, give, may, may_everywhere

MAX_KEY = 2**31
# Seconds for which a link that confirms a mail address works.
MAIL_SECONDS = 24 * 60 * 60
MAIL_SALT = "forkline mail address"
# Codes, because nothing can be removed from the audit trail.
REASONS = {
    "lost": gettext_lazy("The device or the key is lost"),
    "broken": gettext_lazy("The device or the key is broken or replaced"),
    "exposed": gettext_lazy("Somebody else may have the codes"),
}


class ChangeRefused(ValidationError):
    """An account cannot be changed so. The message says why."""


# Links that log a user in, once.


# The user created when there is no superuser. It has no password: only links log it in.
OWNER = "owner"


def owner() -> User:
    """Return the first active superuser, created if there is none."""
    users = User.objects
    found = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    return found or users.create_superuser(OWNER)


def teammate(name: str, may: May | None = None) -> User:
    """Return the user of this name, who may view or run everywhere. A new user may only view by default.

    Raises ValidationError if the name is invalid or the user is deactivated.
    """
    is_new = not User.objects.filter(username=name).exists()
    found = account_named(name)
    if may or is_new:
        give(found, MAY[may or "view"])
    return found


def login_link(user: User, next_path: str = "/") -> str:
    """Return a URL that logs the user in, once, and redirects to ``next_path``."""
    query = urlencode({**get_parameters(user), "next": next_path})
    return f"{settings.ALLOWED_ORIGINS[0]}{reverse('login-link')}?{query}"


# Links for a new password.


class ResetTokens(PasswordResetTokenGenerator):
    """A token works until the password changes, the person logs in, or settings.PASSWORD_RESET_TIMEOUT."""

    key_salt = "forkline password reset"


_reset_tokens = ResetTokens()


def reset_path(person: User) -> str:
    """Return the path of the page on which whoever has it sets a new password of this person, once."""
    return reverse("password-reset", args=[f"{int_to_base36(person.pk)}-{_reset_tokens.make_token(person)}"])


def person_of(token: str) -> User | None:
    """Return the active person whose password a token sets; None if it does not work."""
    key, _dash, rest = token.partition("-")
    try:
        pk = base36_to_int(key) if len(token) <= MAX_TOKEN else MAX_KEY
    except ValueError:
        return None
    person = User.objects.filter(pk=pk, is_active=True).first() if 0 < pk < MAX_KEY else None
    return person if person and _reset_tokens.check_token(person, rest) else None


def person_to_mail(typed: str) -> User | None:
    """Return the person to whom a mail with a link may be sent, by the name or mail address of their account.

    None if there is none, or no password: somebody who logs in with a provider has none to forget.
    """
    found = User.objects.filter(Q(username=typed) | Q(email__iexact=typed), is_active=True).exclude(email="")
    people = [person for person in found if person.has_usable_password()]
    # Of two accounts with one address, neither is meant.
    return people[0] if len(people) == 1 else None


def send_reset_link(person: User) -> None:
    """Send a person the link with which they set a new password, to the address of their account."""
    with override(chosen_language(person) or settings.LANGUAGE_CODE):
        text = _("With this link, you set a new password for %(name)s. It works once, for a day:")
        _send_link(person, _("New password"), text, reset_path(person), person.email)
    record(Action.CHANGED, Audited.USER, person.pk, f"{person.get_username()}: asked for a reset link")


def reset_password(token: str, hashed: str) -> User | None:
    """Use a token, once: store the new password, and end all sessions. Return None if it does not work."""
    with exclusive_transaction("logins"):
        person = person_of(token)
        if person is None:
            return None
        person.password = hashed
        person.save(update_fields=["password"])
        act_as(person)
        record(Action.CHANGED, Audited.USER, person.pk, f"{person.get_username()}: password by a reset link")
        end_sessions(person)
    notify_of_change(person, PASSWORD)
    return person


# What an admin changes for somebody.


def check_change(person: User, admin: User | None) -> None:
    """Raise ChangeRefused unless an admin may change how this person logs in. None is at the terminal.

    For themselves, they confirm who they are under Account.
    """
    if admin is None:
        return
    if admin.pk == person.pk:
        raise ChangeRefused(_("Change your own account under Account."))
    if person.is_superuser and not admin.is_superuser:
        raise ChangeRefused(_("Only a superuser changes the account of a superuser."))


def make_reset_link(person: User, admin: User | None) -> str:
    """Return the path with which a person sets a new password. Raises ChangeRefused."""
    check_change(person, admin)
    if not person.is_active:
        raise ChangeRefused(_("%(name)s can no longer log in.") % {"name": person})
    record(Action.ADDED, Audited.USER, person.pk, f"{person.get_username()}: reset link")
    return reset_path(person)


def password_link(name: str) -> str:
    """Return a URL with which a user sets a new password, once. Raises ValidationError if there is none."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise ValidationError(_("There is no account %(name)s.") % {"name": name})
    return f"{settings.ALLOWED_ORIGINS[0]}{make_reset_link(user, None)}"


def remove_second_factors(person: User, reason: str, admin: User | None) -> int:
    """Remove all second factors and recovery codes of a person, and end their sessions.

    Return the number of removed ones. Raises ChangeRefused.
    """
    check_change(person, admin)
    if reason not in REASONS:
        raise ChangeRefused(_("Choose a reason."))
    with transaction.atomic():
        removed = Authenticator.objects.filter(user=person).delete()[0]
        if not removed:
            raise ChangeRefused(_("%(name)s has no second factor.") % {"name": person})
        detail = f"{person.get_username()}: removed {removed} second factors, {reason}"
        record(Action.REMOVED, Audited.USER, person.pk, detail)
        end_sessions(person)
    notify_of_change(person, FACTORS_REMOVED)
    return removed


def set_active(person: User, admin: User | None, *, is_active: bool) -> None:
    """Deactivate an account, which ends its sessions, or activate it again. Raises ChangeRefused.

    What it has written and its roles stay.
    """
    check_change(person, admin)
    with transaction.atomic():
        if not User.objects.filter(pk=person.pk, is_active=not is_active).update(is_active=is_active):
            return
        state = "activated" if is_active else "deactivated"
        record(Action.CHANGED, Audited.USER, person.pk, f"{person.get_username()}: {state}")
        if not is_active:
            end_sessions(person)


# The mail address of an account.


def mail_token(person: User, address: str) -> str:
    """Return a token that shows that its holder reads the mail of an address. Works for this account only."""
    return signing.dumps([person.pk, person.email, address], salt=MAIL_SALT, compress=True)


def address_of(person: User, token: str) -> str | None:
    """Return the address that a token confirms for this person; None if it does not work any more."""
    try:
        pk, former, address = signing.loads(token, salt=MAIL_SALT, max_age=MAIL_SECONDS)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(address) if (pk, former) == (person.pk, person.email) else None


def send_mail_token(person: User, address: str) -> None:
    """Send a link that confirms an address to this address. The caller has checked that it is one."""
    path = reverse("account-mail-confirm", args=[mail_token(person, address)])
    text = _("With this link, %(name)s receives mail about the account at this address:")
    _send_link(person, _("Mail address"), text, path, address)


def _send_link(person: User, subject: str, text: str, path: str, address: str) -> None:
    """Send a link to a page about the account of a person. The text says what the link does."""
    text, link = text % {"name": person.get_username()}, settings.ALLOWED_ORIGINS[0] + path
    ignore = _("If you did not ask for it, you need not do anything.")
    send_soon(f"Forkline: {subject}", f"{text}\n\n{link}\n\n{ignore}\n", address)


def set_address(person: User, address: str) -> None:
    """Store a confirmed mail address, or none, and notify the former one."""
    former = person.email
    with transaction.atomic():
        person.email = address
        person.save(update_fields=["email"])
        record(Action.CHANGED, Audited.USER, person.pk, f"{person.get_username()}: mail address")
    if former and former != address:
        notify_of_change(person, ADDRESS, former)


# The sessions of a person: which there are, and ending them.


def sessions_of(user: User) -> list[UserSession]:
    """Return the open sessions of a user, the newest first."""
    found: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda session: session.created_at, reverse=True)


def end_sessions(user: User, *, but: str = "") -> int:
    """End all sessions of a user, but the one with this key. Return their number.

    Their open pages end within a second (viewer/web/live/consumer.py).
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


# Sends mail to people about their accounts, without making a page wait for the mail server.

logger = logging.getLogger(__name__)
# Mail that waits while the mail server is slow. Further mail is dropped.
MAX_WAITING = 100
Mail = tuple[str, str, str]
_waiting: queue.Queue[Mail] = queue.Queue(MAX_WAITING)
_starting = threading.Lock()
_is_started = False

# What was changed about an account, as its person reads it.
PASSWORD = gettext_lazy("Your password was changed.")
SECOND_FACTOR = gettext_lazy("A second factor of your account was added or removed.")
FACTORS_REMOVED = gettext_lazy("An admin removed the second factors of your account.")
ADDRESS = gettext_lazy("Another mail address was set for your account.")


def has_mail() -> bool:
    """Whether a mail server is configured."""
    return bool(settings.EMAIL_HOST)


def send_soon(subject: str, text: str, address: str) -> None:
    """Send a mail from another thread, so that the time of a response says nothing about an account.

    It is lost if the server ends at this moment: who waits for it asks again.
    """
    global _is_started  # noqa: PLW0603
    try:
        _waiting.put_nowait((subject, text, address))
    except queue.Full:
        logger.warning("Mail was dropped, because too much of it waits for the mail server.")
        return
    with _starting:
        if not _is_started:
            threading.Thread(target=_send_all, name="mail", daemon=True).start()
            _is_started = True


def notify_of_change(person: User, change: Promise, address: str = "") -> None:
    """Notify a person that how they log in was changed, at this address or the one of their account.

    The mail is in the language that they have chosen, whichever that of the present request is.
    """
    to = address or person.email
    if not (to and has_mail()):
        return
    with override(chosen_language(person) or settings.LANGUAGE_CODE):
        origin = settings.ALLOWED_ORIGINS[0]
        warning = _("If you did not do or ask for this, contact an admin of %s at once.") % origin
        send_soon("Forkline: " + _("Your account"), f"{change}\n\n{warning}\n", to)


def send_waiting() -> None:
    """Wait until the mail of this process is sent or refused, such as before a command ends."""
    _waiting.join()


def _send_all() -> None:
    while True:
        subject, text, address = _waiting.get()
        try:
            send_mail(subject, text, None, [address])
        except (OSError, SMTPException, ValueError) as failure:
            # The text of a mail server may quote what it received, such as a link.
            logger.warning("Mail about an account was not accepted (%s).", type(failure).__name__)
        except Exception:
            logger.exception("Sending mail")
        finally:
            _waiting.task_done()


# Inviting people: who may make an invitation, when its link works, and what accepting it does.

# The choices of how long a link works, in days. The first is the default.
INVITATION_DAYS = (7, 1, 30)


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
    token, now = new_token(), timezone.now()
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
        record(Action.ADDED, Audited.INVITATION, invitation.pk, _invitation_detail(invitation))
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


def invitation_state(invitation: Invitation) -> InvitationState:
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


def accept_invitation(token: str, person: User) -> User:
    """Use an invitation, once: store a new person, and give them or somebody with an account what it gives.

    Of two simultaneous uses, one succeeds. Raises InvitationRefused if the link does not work, and
    ValidationError for a name that is taken or invalid. Then nothing is stored.
    """
    with unrestricted(), exclusive_transaction("invitations"):
        invitation = invitation_with(token)
        if invitation is None or invitation_state(invitation) != InvitationState.WORKS:
            raise InvitationRefused(_("This invitation was already used or revoked."))
        if person.pk is None:
            person.full_clean()
            person.save()
            record(Action.ADDED, Audited.USER, person.pk, person.get_username())
        unused = Invitation.objects.filter(pk=invitation.pk, used_at=None, revoked_at=None)
        if not unused.update(used_at=timezone.now(), used_by=person):
            raise InvitationRefused(_("This invitation was already used or revoked."))
        act_as(person)
        record(Action.ACCEPTED, Audited.INVITATION, invitation.pk, _invitation_detail(invitation))
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


def _invitation_detail(invitation: Invitation) -> str:
    where = invitation.location.path if invitation.location else "all locations"
    role = f"{Level(invitation.level).name.lower()} on {where}" if invitation.level else ""
    return ", ".join(filter(None, [role, f"team {invitation.team}" if invitation.team else ""]))


# API tokens: who makes and revokes them, and which one a program has sent.

# The choices of how long a token works, in days. The first is the default.
TOKEN_DAYS = (90, 7, 30, 365)
# How exactly its last use is stored: otherwise each request would write.
TOKEN_USED_EVERY = timedelta(minutes=1)


class TokenRefused(ValueError):
    """A person may not make such a token."""


def make_token(
    user: User,
    name: str,
    level: Level,
    locations: Collection[Location] | None = None,
    *,
    days: int = TOKEN_DAYS[0],
) -> tuple[ApiToken, str]:
    """Store a token for these locations, or without them, for all that its person sees.

    Return it with its text, which cannot be found out again. Raises TokenRefused if the person lacks the role
    at one of the locations.
    """
    access = access_of(user)
    levels = [access.highest] if locations is None else [access.level_at(one.pk) for one in locations]
    if not levels or min(levels) < level:
        raise TokenRefused
    text = API_TOKEN_PREFIX + new_token()
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
    if not API_TOKEN.fullmatch(text):
        return None
    with unrestricted():
        token = ApiToken.objects.select_related("user").filter(token_hash=hash_of(text)).first()
    return token if token and token.works else None


def record_token_use(token: ApiToken) -> None:
    """Store that a token was used."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - TOKEN_USED_EVERY:
        unused = Q(last_used_at=None) | Q(last_used_at__lt=now - TOKEN_USED_EVERY)
        ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)
