"""Who may do what, and why; giving and taking roles, and changing teams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from viewer.models import Level, Location, Role, Team
from viewer.records.audit import Action, Audited, record

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
    team = Team.objects.filter(name=name).first() or Team(name=name)
    if team.pk is None:
        team.full_clean()
        with transaction.atomic():
            team.save()
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
