"""Permissions: the right that each address requires, who has it where, and giving roles."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Model, Prefetch, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from viewer.models import (
    Access,
    Checkpoint,
    Job,
    Level,
    Location,
    Project,
    Right,
    Role,
    Run,
    Sweep,
    Team,
    access_of,
)
from viewer.models.roles import present_access, require_level, restricted_to, visible_rows
from viewer.records.audit import Action, Audited, acting, record

View = TypeVar("View", bound=Callable[..., HttpResponseBase])
May = Literal["view", "run"]
# The level on all locations that each choice of ``login_link --may`` gives.
MAY: dict[May, Level] = {"view": Level.VIEWER, "run": Level.ADMIN}

# The rule of each address.


@dataclass(frozen=True, slots=True)
class Rule:
    """The right that a view requires; on all locations if ``everywhere``, else on the rows that it reads."""

    right: Right
    everywhere: bool = False


def requires(right: Right, *, everywhere: bool = False) -> Callable[[View], View]:
    """Decorator: declare the right that a view requires. A view without a rule refuses everybody.

    The view reads only rows on which the user has the right. Others do not exist for it.
    """

    def marked(view: View) -> View:
        view.rule = Rule(right, everywhere)  # type: ignore[attr-defined]
        return view

    return marked


def person_of(request: HttpRequest) -> Any:
    """Return the user who is logged in; None if nobody is."""
    return request.user if request.user.is_authenticated else None


def check_rule(user: Any, view: Callable[..., HttpResponseBase]) -> None:
    """Let the present request see the rows on which its user has the view's right.

    Raises PermissionDenied if the user has the right nowhere, and Http404 if the view requires it on all
    locations, whose names and numbers it would show.
    """
    rule: Rule | None = getattr(view, "rule", None)
    if rule is None:
        raise PermissionDenied
    access = access_of(user)
    if rule.right != Right.VIEW and access.highest < rule.right.level:
        raise PermissionDenied
    if rule.everywhere and access.everywhere < rule.right.level:
        raise Http404
    require_level(access, rule.right.level)


# Who has a right where.


def may(user: Any, right: Right, location: int | None = None) -> bool:
    """Whether a user has a right on the location with this key, or without one, on any."""
    access = access_of(user)
    return (access.highest if location is None else access.level_at(location)) >= right.level


def may_everywhere(user: Any, right: Right) -> bool:
    """Whether a user has a right on all locations, and on those that are added later."""
    return access_of(user).everywhere >= right.level


def has_right(user: Any, right: Right, rows: Mapping[type[Model], Any]) -> bool:
    """Whether an account exists, is active, and has a right on these rows, given by model and key.

    Without rows, it needs the right on any location, but to add one on all, and to view none.
    """
    access = access_of(user) if user else Access()
    if access.everywhere >= right.level:
        return True
    if not rows and right == Right.VIEW:
        return bool(user and user.is_active)
    if not rows:
        return right != Right.LOCATIONS and access.highest >= right.level
    return all(
        visible_rows(model, access, right.level).filter(pk=key).exists() for model, key in rows.items()
    )


def may_start(job: Job) -> bool:
    """Whether who requested a job, or the admin who continued it, has the right to run it at present.

    At a terminal, everybody has. A waiting job of somebody who has not waits for an admin's decision.
    """
    return job.is_from_terminal or has_right(job.acts_for, Right.RUN, {Job: job.pk})


def may_at(right: Right, location: int) -> bool:
    """Whether the sender of the present request has a right on a location."""
    access = present_access()
    return access is None or access.level_at(location) >= right.level


def require_project(project: Project | None) -> None:
    """Raise PermissionDenied if the present request may not change a project, which another team may use."""
    if project and not Project.objects.filter(pk=project.pk).exists():
        raise PermissionDenied


def can_share(user: Any) -> bool:
    """Whether a user can create share links, which requires the setting SHARING and the right."""
    return settings.SHARING and may(user, Right.SHARE)


def is_shared() -> bool:
    """Whether several people use this server. One person on this machine needs no roles and no comments."""
    return settings.IS_BEHIND_TLS or User.objects.order_by("pk")[1:2].exists()


@contextmanager
def sharing_as(maker: Any) -> Iterator[None]:
    """Within the block, queries return what the maker of a share link may share."""
    actor = acting.get()
    was_through_link = actor and actor.is_through_link
    if actor:
        actor.is_through_link = True
    try:
        with restricted_to(lambda: access_of(maker), Right.SHARE.level):
            yield
    finally:
        if actor:
            actor.is_through_link = bool(was_through_link)


# What templates show.


# By the beginning of an address: the row that it names, and the column with the key of the row's location.
SUBJECTS: dict[str, tuple[Any, str]] = {
    "locations": (Location, "pk"),
    "runs": (Run, "location"),
    "checkpoints": (Checkpoint, "location"),
    "jobs": (Job, "location"),
    "sweeps": (Sweep, "checkpoint__location"),
}


def permissions_context(request: HttpRequest) -> dict[str, Any]:
    """Return what the user may do, for every template: at the location of the page, if it has one."""
    level = cache(lambda: _level_of_page(request))
    lazily = SimpleLazyObject
    return {
        "can_run": lazily(lambda: level() >= Right.RUN.level),
        "can_administer": lazily(lambda: level() >= Right.LOCATIONS.level),
        "can_share": lazily(lambda: settings.SHARING and level() >= Right.SHARE.level),
        "is_shared": lazily(is_shared),
        "can_reveal": lazily(lambda: settings.AUDIT and level() >= Right.REVEAL.level),
        "sees_everything": lazily(lambda: may_everywhere(request.user, Right.VIEW)),
        "administers_everything": lazily(lambda: may_everywhere(request.user, Right.LOCATIONS)),
    }


def _level_of_page(request: HttpRequest) -> int:
    """The user's level at the location of the page; the highest anywhere on pages of several."""
    access, match = access_of(request.user), request.resolver_match
    subject = SUBJECTS.get(match.route.split("/")[0]) if match else None
    key = match and (match.kwargs.get("uid") or match.kwargs.get("pk") or match.kwargs.get("job"))
    # Most people have the same level at all locations that they see.
    if access.lowest == access.highest or subject is None or not key:
        return access.highest
    model, column = subject
    name = "uid" if model in (Location, Run) else "pk"
    location = model.objects.filter(**{name: key}).values_list(column, flat=True).first()
    return access.highest if location is None else access.level_at(location)


# Roles: which people have, and why; giving and taking them, and changing teams.

# A person or a team has at most one role on a location, and one on all.
Holder = User | Team


@dataclass(frozen=True, slots=True)
class HeldRole:
    """A role that a person has, and why: through a team, alone, or as a superuser, which has no role."""

    person: User
    level: Level
    location: Location | None = None
    team: Team | None = None
    # The key of the row.
    key: int | None = None

    @property
    def where(self) -> str:
        """The path of the location."""
        return self.location.path if self.location else _("all locations")

    @property
    def reason(self) -> str:
        """Why the person has it."""
        if self.team:
            return _("as a member of %(team)s") % {"team": self.team.name}
        return _("superuser") if self.person.is_superuser else _("own role")


def held_roles(roles: QuerySet[Role] | None = None) -> Iterator[HeldRole]:
    """Yield every role of these that an active person has, by the name of the person."""
    shown = (Role.objects.all() if roles is None else roles).select_related("location")
    shown = shown.order_by("location__path")
    people = (
        User.objects.filter(is_active=True)
        .order_by("username")
        .prefetch_related(Prefetch("roles", shown), Prefetch("teams__roles", shown))
    )
    for person in people:
        if person.is_superuser:
            yield HeldRole(person, Level.ADMIN)
            continue
        for role in person.roles.all():
            yield HeldRole(person, Level(role.level), role.location, key=role.pk)
        for team in person.teams.all():
            for role in team.roles.all():
                yield HeldRole(person, Level(role.level), role.location, team, role.pk)


def give(holder: Holder, level: Level, location: Location | None = None) -> None:
    """Give a person or team this role on a location, or on all, in place of the one that they have there."""
    with transaction.atomic():
        Role.objects.update_or_create(**_of(holder), location=location, defaults={"level": level})
        _record(holder, f"{level.name.lower()} on {_place(location)}")


def take(holder: Holder, location: Location | None = None) -> bool:
    """Take the role on a location, or on all. Return False if there is none."""
    with transaction.atomic():
        taken = bool(Role.objects.filter(**_of(holder), location=location).delete()[0])
        if taken:
            _record(holder, f"nothing on {_place(location)}")
    return taken


def team_named(name: str) -> Team:
    """Return the team of this name, created if there is none. Raises ValidationError."""
    Team(name=name).clean_fields()
    with transaction.atomic():
        # Two people of a new group may log in at once.
        team, is_new = Team.objects.get_or_create(name=name)
        if is_new:
            record(Action.ADDED, Audited.TEAM, team.pk, team.name)
    return team


def account_named(name: str) -> User:
    """Return the account of this name, created without a password or a role if there is none.

    Raises ValidationError if the name is invalid or the user is deactivated.
    """
    found = User.objects.filter(username=name).first()
    if found is None:
        found = User(username=name)
        found.set_unusable_password()
        found.full_clean(exclude=["password"])
        found.save()
    if not found.is_active:
        raise ValidationError(_("%(name)s can no longer log in.") % {"name": name})
    return found


def delete_team(team: Team) -> None:
    """Delete a team with its roles. Its members keep their own."""
    with transaction.atomic():
        record(Action.REMOVED, Audited.TEAM, team.pk, team.name)
        team.delete()


def set_quotas(team: Team, quotas: Mapping[str, float]) -> None:
    """Replace what the jobs of a team's members may use together, by measure (viewer/records/limits.py)."""
    with transaction.atomic():
        team.quotas = dict(quotas)
        team.save(update_fields=["quotas"])
        given = ", ".join(f"{measure} {number}" for measure, number in quotas.items()) or "none"
        record(Action.CHANGED, Audited.TEAM, team.pk, f"{team.name}: quotas {given}")


def add_member(team: Team, person: User) -> None:
    """Give a person the roles of a team."""
    with transaction.atomic():
        team.members.add(person)
        record(Action.CHANGED, Audited.TEAM, team.pk, f"{team.name}: added {person.get_username()}")


def remove_member(team: Team, person: User) -> None:
    """Take the roles of a team from a person, who keeps their own."""
    with transaction.atomic():
        team.members.remove(person)
        record(Action.CHANGED, Audited.TEAM, team.pk, f"{team.name}: removed {person.get_username()}")


def _of(holder: Holder) -> dict[str, Any]:
    return {"team" if isinstance(holder, Team) else "user": holder}


def _place(location: Location | None) -> str:
    return location.path if location else "all locations"


def _record(holder: Holder, change: str) -> None:
    kind = Audited.TEAM if isinstance(holder, Team) else Audited.USER
    record(Action.CHANGED, kind, holder.pk, f"{holder}: {change}")
