"""Teams and roles, and which rows a person may see.

Within a request, ``Model.objects`` returns only the rows that the person may see, so a new query needs no
further check. Elsewhere, such as in a worker or at the terminal, it returns all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, TypeVar, cast

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

Row = TypeVar("Row", bound=models.Model)


class Level(models.IntegerChoices):
    """What a role allows. Each level allows everything that the lower ones do."""

    VIEWER = 1, _("Viewer")
    OPERATOR = 2, _("Operator")
    ADMIN = 3, _("Admin")


class Right(StrEnum):
    """What a person may do with the rows of a location."""

    VIEW = "view"
    RUN = "run"
    ANSWER = "answer"
    CANCEL = "cancel"
    ANNOTATE = "annotate"
    COMMENT = "comment"
    LOCATIONS = "locations"
    PROJECTS = "projects"
    LIMITS = "limits"
    PRUNE = "prune"
    SHARE = "share"
    REVEAL = "reveal"
    HOSTS = "hosts"
    AUDIT = "audit"
    MEMBERS = "members"

    @property
    def level(self) -> Level:
        """The least level that has this right."""
        return LEVELS[self]


LEVELS = {
    Right.VIEW: Level.VIEWER,
    Right.RUN: Level.OPERATOR,
    Right.ANSWER: Level.OPERATOR,
    Right.CANCEL: Level.OPERATOR,
    Right.ANNOTATE: Level.OPERATOR,
    Right.COMMENT: Level.OPERATOR,
    Right.LOCATIONS: Level.ADMIN,
    Right.PROJECTS: Level.ADMIN,
    Right.LIMITS: Level.ADMIN,
    Right.PRUNE: Level.ADMIN,
    Right.SHARE: Level.ADMIN,
    Right.REVEAL: Level.ADMIN,
    Right.HOSTS: Level.ADMIN,
    Right.AUDIT: Level.ADMIN,
    Right.MEMBERS: Level.ADMIN,
}


class Team(models.Model):
    """People who share roles."""

    name = models.CharField(max_length=150, unique=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="teams", blank=True)
    # What the jobs of its members may use together, without the unset measures (viewer/records/limits.py):
    # {"runs": 5, "tokens": 50000, "cost": 12.5}.
    quotas = models.JSONField(default=dict, db_default={}, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.Model):
    """What a team or a person may do on a location, or on all if it has none."""

    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="roles")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    location = models.ForeignKey(
        "viewer.Location", null=True, blank=True, on_delete=models.CASCADE, related_name="roles"
    )
    level = models.PositiveSmallIntegerField(choices=Level)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(team=None, user__isnull=False) | Q(team__isnull=False, user=None),
                name="role_of_team_or_user",
            ),
            # NULLs are never equal in a constraint of columns.
            models.UniqueConstraint(
                Coalesce("team", 0), Coalesce("user", 0), Coalesce("location", 0), name="unique_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.team or self.user}: {self.get_level_display()}"


# What one person may do.


@dataclass(frozen=True, slots=True)
class Access:
    """The levels of a person: ``everywhere``, and ``at`` single locations, by their keys. 0 is none.

    ``user`` is 0 if nothing but these levels counts: neither roles in rows, nor what the person has made.
    """

    user: int = 0
    everywhere: int = 0
    at: Mapping[int, int] = field(default_factory=dict)

    @property
    def highest(self) -> int:
        """The highest level that the person has anywhere."""
        return max(self.everywhere, *self.at.values(), 0)

    @property
    def lowest(self) -> int:
        """The level that the person has at every location that they see."""
        return self.everywhere or min(self.at.values(), default=0)

    def level_at(self, location: int | None) -> int:
        """The level at the location with this key."""
        return max(self.everywhere, self.at.get(location or 0, 0))

    def limited_to(self, level: int, locations: Collection[int] | None) -> Access:
        """Return this access with at most this level, and at these locations only unless they are None."""
        everywhere = min(self.everywhere, level) if locations is None else 0
        places = self.at if locations is None else locations
        at = {one: min(self.level_at(one), level) for one in places}
        return Access(0, everywhere, {one: least for one, least in at.items() if least})


def access_of(user: Any) -> Access:
    """Return what a user may do; nothing for anonymous and deactivated ones.

    Read with one query, and cached on the user as Django's permissions are. That of a program's user is
    limited by its token (``ApiToken.limited_user``).
    """
    if not (user.is_authenticated and user.is_active):
        return Access()
    known: Access | None = getattr(user, "_access", None)
    if known is None and user.is_superuser:
        return Access(user.pk, Level.ADMIN)
    if known is None:
        everywhere, at = 0, dict[int, int]()
        for location, level in roles_of(user.pk).values_list("location", "level"):
            if location is None:
                everywhere = max(everywhere, level)
            else:
                at[location] = max(at.get(location, 0), level)
        user._access = known = Access(user.pk, everywhere, at)
    return known


def roles_of(user: int) -> models.QuerySet[Role]:
    """Return the roles that a user has, alone or in a team."""
    return Role.objects.filter(Q(user=user) | Q(team__members=user))


# Whose rows a query returns.


@dataclass(slots=True)
class _Sight:
    """What the present request may see. The access is read by the first query that needs it."""

    find_access: Callable[[], Access]
    level: int
    known: Access | None = None

    @property
    def access(self) -> Access:
        if self.known is None:
            self.known = self.find_access()
        return self.known


# None outside of a request: all rows.
_sight: ContextVar[_Sight | None] = ContextVar("sight", default=None)


@contextmanager
def restricted_to(find_access: Callable[[], Access], level: int = Level.VIEWER) -> Iterator[None]:
    """Within the block, ``Model.objects`` returns only rows on which a person has at least this level."""
    token = _sight.set(_Sight(find_access, level))
    try:
        yield
    finally:
        _sight.reset(token)


@contextmanager
def unrestricted() -> Iterator[None]:
    """Within the block, ``Model.objects`` returns all rows, also in a request."""
    token = _sight.set(None)
    try:
        yield
    finally:
        _sight.reset(token)


def require_level(access: Access, level: int) -> None:
    """From now on, the present request sees only rows on which a person has this level."""
    _sight.set(_Sight(lambda: access, level, access))


def present_access() -> Access | None:
    """Return what the sender of the present request may do; None outside of a request."""
    sight = _sight.get()
    return sight.access if sight else None


class VisibleQuerySet(models.QuerySet[Row]):
    """Rows that belong to a location, directly or through the rows that ``BELONGS_TO`` names."""

    def visible_to(self, access: Access, level: int = Level.VIEWER) -> Self:
        """Return the rows on which a person has this level. Adds no query."""
        if access.everywhere >= level:
            return self
        return self.filter(self.condition(access, level))

    def condition(self, access: Access, level: int) -> Q:
        """The condition of these rows, without joins: updates check it again on the rows themselves."""
        found, model = Q(), cast(Any, self.model)
        for name in model.BELONGS_TO:
            key = model._meta.get_field(name)
            rows = visible_rows(key.related_model, access, level)
            if key.related_model._meta.label == "viewer.Location":
                here = Q(**{f"{name}__in": rows.values("pk")})
            else:
                here = Q(Exists(rows.filter(pk=OuterRef(key.attname))))
            found &= here | Q(**{name: None}) if key.null else here
        return found


class VisibleManager(models.Manager[Row]):
    """Returns the rows that the sender of the present request may see."""

    def get_queryset(self) -> Any:
        rows = cast(Any, super().get_queryset())
        sight = _sight.get()
        return rows.visible_to(sight.access, sight.level) if sight else rows


def visible_rows(model: type[models.Model], access: Access, level: int = Level.VIEWER) -> Any:
    """Return the rows of a model on which a person, not the sender of the request, has this level."""
    manager = cast(Any, model._default_manager)
    return manager._queryset_class(model).order_by().visible_to(access, level)
