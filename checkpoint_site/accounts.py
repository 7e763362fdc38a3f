"""How django-allauth logs people in: nobody signs up without an invitation, and secrets are encrypted."""

import base64
import ipaddress
import secrets
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.signals import user_logged_in
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.crypto import salted_hmac
from django.utils.http import url_has_allowed_host_and_scheme

from checkpoint_site.middleware.throttle import address_of, parsed_address
from viewer.models import InvitationState
from viewer.records.accounts import InvitationRefused, accept_invitation, invitation_state, invitation_with
from viewer.records.audit import Action, Audited, act_as, record
from viewer.records.permissions import add_member, remove_member, team_named
from viewer.web.views.accounts import INVITATION

# The address of a client whose own is unknown.
UNKNOWN = str(ipaddress.IPv4Address(0))
# The name that the accounts of the OpenID Connect provider are stored with (checkpoint_site/settings.py).
OIDC = "provider"


class AccountAdapter(DefaultAccountAdapter):
    """Passwords and sessions."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody signs up by themselves. An invitation creates an account (viewer/records/accounts.py)."""
        return False

    def is_safe_url(self, url: str) -> bool:
        """Whether a login may redirect there: only to a page of this host, with its port."""
        request = context.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """Whether a person confirms who they are before they change how they log in.

        Those who have only ever used a link have nothing to confirm it with.
        """
        return bool(self.get_reauthentication_methods(context.request.user))

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the address that the list of sessions shows."""
        return str(parsed_address(address_of(request)) or UNKNOWN)


class ProviderAdapter(DefaultSocialAccountAdapter):
    """Logins with a provider, such as GitHub. Accounts are linked by their ids, never by e-mail."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Keep the address of a new person only if the provider has verified it."""
        if not sociallogin.is_existing and isinstance(sociallogin.user, User):
            verified = [address.email for address in sociallogin.email_addresses if address.verified]
            sociallogin.user.email = verified[0] if verified else ""
        sociallogin.email_addresses = []

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Whether a new person gets an account: by an invitation, or as a member of a team's group."""
        is_in_team = not groups_of(sociallogin).isdisjoint(settings.TEAMS_OF_GROUPS)
        return is_in_team or _invitation(request) is not None

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Create the account of a new person, and use the invitation."""
        token = _invitation(request)
        with transaction.atomic():
            user: User = super().save_user(request, sociallogin, form)
            act_as(user)
            record(Action.ADDED, Audited.USER, user.pk, user.get_username())
            if token:
                _accept(token, user)
        request.session.pop(INVITATION, None)
        return user

    def validate_disconnect(self, account: Any, accounts: Any) -> None:
        """Any may be removed: a login link still logs the person in."""


def _accept(token: str, user: User) -> None:
    try:
        accept_invitation(token, user)
    except InvitationRefused:
        # Somebody was faster. Its page says so.
        raise ImmediateHttpResponse(redirect("invitation", token)) from None


def _invitation(request: HttpRequest) -> str | None:
    """Return the token of the invitation with which somebody went to a provider, if it works."""
    token = request.session.get(INVITATION, "")
    found = invitation_with(token) if token else None
    return token if found and invitation_state(found) == InvitationState.WORKS else None


def groups_of(sociallogin: SocialLogin) -> set[str]:
    """Return the groups of a person as the OpenID Connect provider says; of another provider none."""
    if sociallogin.account.provider != OIDC:
        return set()
    data = sociallogin.account.extra_data
    claims = {**(data.get("id_token") or {}), **(data.get("userinfo") or {})}
    found = claims.get(settings.OIDC_GROUPS_CLAIM)
    groups = found if isinstance(found, list) else [found]
    return {group for group in groups if isinstance(group, str)}


@receiver(user_logged_in)
def follow_groups(user: User, sociallogin: SocialLogin | None = None, **_more: Any) -> None:
    """Add a person to the teams of their groups, and remove them from those of groups that they have left."""
    if sociallogin is None or sociallogin.account.provider != OIDC:
        return
    groups, member_of = groups_of(sociallogin), set(user.teams.values_list("name", flat=True))
    wanted = {team for group, team in settings.TEAMS_OF_GROUPS.items() if group in groups}
    for name in sorted(wanted - member_of):
        add_member(team_named(name), user)
    for name in sorted((set(settings.TEAMS_OF_GROUPS.values()) & member_of) - wanted):
        remove_member(team_named(name), user)


class SecondFactorAdapter(DefaultMFAAdapter):
    """Authenticator apps, security keys and recovery codes."""

    def get_totp_issuer(self) -> str:
        """The name under which an authenticator app lists the account."""
        return f"Forkline {context.request.get_host()}"

    def encrypt(self, text: str) -> str:
        """Return an encrypted secret. A copy of the database is no use without SECRET_KEY."""
        return _ciphers().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret; after a change of SECRET_KEY one that nobody knows, so that no code is right."""
        try:
            return _ciphers().decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            return base64.b32encode(secrets.token_bytes(20)).decode()


def _ciphers() -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    digests = [salted_hmac("second factors", "", secret=key, algorithm="sha256").digest() for key in keys]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
