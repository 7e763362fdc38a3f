"""Links that log their reader in, once."""

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.urls import reverse
from sesame.utils import get_parameters

# Who the dashboard belongs to where nobody has been entered yet. It has no password: links log it in.
OWNER = "owner"


def owner() -> AbstractBaseUser:
    """The first user who may do everything, made where there is none."""
    users = get_user_model().objects
    found = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    return found or users.create_superuser(OWNER)


def login_link(user: AbstractBaseUser, next_path: str = "/") -> str:
    """An address on this machine that logs the user in, once, and leads on to ``next_path``."""
    query = urlencode({**get_parameters(user), "next": next_path})
    return f"http://127.0.0.1:{settings.PORT}{reverse('login-link')}?{query}"
