"""Who may do what: whoever is logged in may look, and only who was given the right may run."""

from collections.abc import Callable
from typing import Literal

from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

View = Callable[..., HttpResponseBase]
# To start, cancel and answer runs, and to change what they run with: locations, projects and limits.
RIGHT = "viewer.can_run"
May = Literal["look", "run"]


def viewer_allowed(view: View) -> View:
    """The view, which whoever is logged in may ask for. Any other needs the right to run."""
    view.viewer_allowed = True  # type: ignore[attr-defined]
    return view


def check_right(user: User | AnonymousUser, view: View) -> None:
    """Raise PermissionDenied where somebody who is logged in may not ask for this view."""
    if not (getattr(view, "viewer_allowed", False) or can_run(user)):
        raise PermissionDenied


def can_run(user: User | AnonymousUser) -> bool:
    """Whether somebody was given the right; never for one who is not logged in, or shut out."""
    return user.has_perm(RIGHT)


def allow(user: User, may: May) -> None:
    """Let the user do this from now on, and no more than this."""
    right = Permission.objects.get(content_type__app_label="viewer", codename="can_run")
    if may == "run":
        user.user_permissions.add(right)
    else:
        user.user_permissions.remove(right)


def permissions_context(request: HttpRequest) -> dict[str, bool]:
    """What every template knows of its reader."""
    return {"can_run": can_run(request.user)}
