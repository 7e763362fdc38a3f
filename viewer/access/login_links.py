"""Links that log their reader in, once."""

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.translation import gettext as _
from sesame.utils import get_parameters

from viewer.access.permissions import May, allow

# Who the dashboard belongs to where nobody has been entered yet. It has no password: links log it in.
OWNER = "owner"


def owner() -> User:
    """The first user who may do everything, made where there is none."""
    users = User.objects
    found = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    return found or users.create_superuser(OWNER)


def teammate(name: str, may: May | None = None) -> User:
    """The user of this name, made where there is none: one who may look, where nothing else is said.

    Raises ValidationError for no name or one shut out.
    """
    found = User.objects.filter(username=name).first()
    if found is None:
        found = User(username=name)
        found.set_unusable_password()
        found.full_clean(exclude=["password"])
        found.save()
    if not found.is_active:
        raise ValidationError(_("%(name)s can no longer log in.") % {"name": name})
    if may:
        allow(found, may)
    return found


def login_link(user: User, next_path: str = "/") -> str:
    """An address that logs the user in, once, and leads on to ``next_path``."""
    query = urlencode({**get_parameters(user), "next": next_path})
    return f"{settings.ALLOWED_ORIGINS[0]}{reverse('login-link')}?{query}"
