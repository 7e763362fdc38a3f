"""Permissions: every logged-in user may view; starting and changing things needs the permission to run."""

from collections.abc import Callable
from typing import Literal

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from viewer.records.audit import Action, Audited, record

View = Callable[..., HttpResponseBase]
# To start, cancel and answer runs, and to change what they run with: locations, projects and limits.
RIGHT = "viewer.can_run"
May = Literal["view", "run"]


def viewer_allowed(view: View) -> View:
    """Mark a view that every logged-in user may request. All others need the permission to run."""
    view.viewer_allowed = True  # type: ignore[attr-defined]
    return view


def check_right(user: User | AnonymousUser, view: View) -> None:
    """Raise PermissionDenied if a logged-in user may not request this view."""
    if not (getattr(view, "viewer_allowed", False) or can_run(user)):
        raise PermissionDenied


def can_run(user: User | AnonymousUser) -> bool:
    """Whether the user has the permission to run. False for anonymous and deactivated users."""
    return user.has_perm(RIGHT)


def has_right(user: User | None, may: May) -> bool:
    """Whether the account exists, is active and has this right. Rights by location belong here as well."""
    if user is None or not user.is_active:
        return False
    return may == "view" or can_run(user)


def can_share(user: User | AnonymousUser) -> bool:
    """Whether the user can create share links, which requires the setting SHARING and the right to run."""
    return settings.SHARING and can_run(user)


def allow(user: User, may: May) -> None:
    """Set what the user may do."""
    right = Permission.objects.get(content_type__app_label="viewer", codename="can_run")
    with transaction.atomic():
        if may == "run":
            user.user_permissions.add(right)
        else:
            user.user_permissions.remove(right)
        record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()} may {may}")


def permissions_context(request: HttpRequest) -> dict[str, bool]:
    """Return the permissions that every template can use."""
    return {"can_run": can_run(request.user), "can_share": can_share(request.user)}
