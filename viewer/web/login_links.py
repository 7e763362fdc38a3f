"""Links that log a user in, once, and values in addresses, which anybody may have written."""

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.translation import gettext as _
from sesame.utils import get_parameters

from viewer.records.accounts import make_reset_link
from viewer.records.permissions import MAY, May
from viewer.records.roles import account_named, give
from viewer.validation import InvalidInput, whole_number

# Values in URLs, which anybody may have written.


def number_in(text: str, max_digits: int = 9) -> int | None:
    """Return the text as an integer of at most ``max_digits`` digits, at least 0; None for any other text."""
    try:
        return whole_number(text, 0, 10**max_digits - 1)
    except InvalidInput:
        return None


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


def password_link(name: str) -> str:
    """Return a URL with which a user sets a new password, once. Raises ValidationError if there is none."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise ValidationError(_("There is no account %(name)s.") % {"name": name})
    return f"{settings.ALLOWED_ORIGINS[0]}{make_reset_link(user, None)}"
