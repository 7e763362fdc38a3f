"""Who may do what, and why: the page on which roles are given and taken, and teams are changed."""

from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from viewer.launching.edits import InvalidValue
from viewer.launching.options import parse_limit
from viewer.models import InvitationState, Level, Location, Right, Role, Team
from viewer.presentation.jobs.status import team_usage
from viewer.records.annotations import has_changed, mark_of
from viewer.records.limits import QUOTAS
from viewer.records.locations import location_named
from viewer.records.permissions import (
    account_named,
    add_member,
    give,
    held_roles,
    may_everywhere,
    remove_member,
    requires,
    set_quotas,
    take,
    team_named,
)
from viewer.records.tokens import INVITATION_DAYS, open_invitations, state_of
from viewer.validation import InvalidInput, one_line_text
from viewer.web.fields import errors_text

# The locations that the form suggests. The path of any other can be typed.
MAX_OFFERED = 500


def _name(text: str) -> str:
    try:
        return one_line_text(text.strip(), 150)
    except InvalidInput:
        raise ValidationError(_("Enter a name.")) from None


class PlaceForm(forms.Form):
    """Where a role is given. Only an admin of all locations gives one on all."""

    # PATH or HOST:PATH of a location; empty for all.
    location = forms.CharField(max_length=1000, required=False)

    def __init__(self, data: Any, *, is_admin: bool) -> None:
        super().__init__(data)
        self.is_admin = is_admin

    def clean_location(self) -> Location | None:
        text = self.cleaned_data["location"].strip()
        if not text and self.is_admin:
            return None
        return location_named(text)


class RoleForm(PlaceForm):
    """Who gets which role, and where. Only an admin of all locations gives one to somebody new."""

    holder = forms.ChoiceField(choices=[("person", gettext_lazy("Person")), ("team", gettext_lazy("Team"))])
    name = forms.CharField(max_length=150)
    level = forms.TypedChoiceField(choices=Level, coerce=int)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.errors:
            return values
        name, is_team = _name(values["name"]), values["holder"] == "team"
        if self.is_admin:
            return values | {"holder": team_named(name) if is_team else account_named(name)}
        teams, people = Team.objects.filter(name=name), User.objects.filter(username=name, is_active=True)
        holder = (teams if is_team else people).first()
        if holder is None:
            raise ValidationError(_("There is no team or account %(name)s.") % {"name": name})
        return values | {"holder": holder}


class QuotaField(forms.CharField):
    """A quota as a number; None if it is empty, for no quota."""

    def __init__(self, measure: str, label: Any) -> None:
        self.measure = measure
        super().__init__(required=False, label=label, max_length=30)

    def clean(self, value: Any) -> float | None:
        text = super().clean(value)
        try:
            return parse_limit(self.measure, text) if text else None
        except InvalidValue as invalid:
            raise ValidationError(f"{self.label}: {invalid}") from None


class QuotasForm(forms.Form):
    """The quotas of a team. Those that somebody has changed since the page was shown are an error."""

    runs = QuotaField("runs", gettext_lazy("Runs at once"))
    tokens = QuotaField("tokens", gettext_lazy("Tokens a day"))
    cost = QuotaField("cost", gettext_lazy("US dollars a day"))

    def __init__(self, data: Any, team: Team) -> None:
        super().__init__(data)
        self.team = team

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.team.quotas):
            raise ValidationError(_("Somebody changed these quotas. Check them, and save again."))
        return {name: value for name, value in self.cleaned_data.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ShownTeam:
    """A team with the fields of its quotas, how much is used, and the mark of the quotas (``seen``)."""

    team: Team
    quotas: list[tuple[str, Any, float | str]]
    used: list[str]
    seen: str


def _shown(team: Team) -> ShownTeam:
    fields = [(name, QuotasForm.base_fields[name].label, team.quotas.get(name, "")) for name in QUOTAS]
    return ShownTeam(team, fields, team_usage(team), mark_of(team.quotas))


@requires(Right.MEMBERS)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List the roles that the user may change, and the teams, which an admin of all locations may."""
    is_admin = may_everywhere(request.user, Right.MEMBERS)
    context = {
        "held": list(held_roles(_roles(request))),
        "people": _people() if is_admin else [],
        "teams": list(map(_shown, Team.objects.prefetch_related("members"))) if is_admin else [],
        "locations": Location.objects.all()[:MAX_OFFERED],
        "levels": Level.choices,
        "invitations": [one for one in open_invitations() if state_of(one) == InvitationState.WORKS],
        "expiry_days": INVITATION_DAYS,
        "is_admin": is_admin,
    }
    return render(request, "roles/page.html", context)


@requires(Right.MEMBERS)
@require_POST
def give_role(request: HttpRequest) -> HttpResponse:
    """Give a role, or say why not."""
    form = RoleForm(request.POST, is_admin=may_everywhere(request.user, Right.MEMBERS))
    if form.is_valid():
        given = form.cleaned_data
        give(given["holder"], Level(given["level"]), given["location"])
        messages.success(request, _("Saved."))
    else:
        messages.error(request, errors_text(form))
    return redirect("roles")


@requires(Right.MEMBERS)
@require_POST
def take_role(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a role from the person or team that has it."""
    role = get_object_or_404(_roles(request).select_related("team", "user", "location"), pk=pk)
    holder = role.team or role.user
    assert holder
    take(holder, role.location)
    messages.success(request, _("Took the role from %(name)s.") % {"name": holder})
    return redirect("roles")


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def change_team(request: HttpRequest) -> HttpResponse:
    """Add a person to a team, both created if new, or remove one."""
    try:
        team, name = team_named(_name(request.POST.get("team", ""))), _name(request.POST.get("name", ""))
        if request.POST.get("change") == "remove":
            remove_member(team, get_object_or_404(team.members, username=name))
        else:
            add_member(team, account_named(name))
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    else:
        messages.success(request, _("Saved."))
    return redirect("roles")


@requires(Right.LIMITS, everywhere=True)
@require_POST
def change_quotas(request: HttpRequest, pk: int) -> HttpResponse:
    """Set what the jobs of a team may use together, or say why not."""
    team = get_object_or_404(Team, pk=pk)
    form = QuotasForm(request.POST, team)
    if form.is_valid():
        set_quotas(team, form.cleaned_data)
        messages.success(request, _("Saved."))
    else:
        messages.error(request, errors_text(form))
    return redirect("roles")


def _people() -> QuerySet[User]:
    """All accounts, those that can log in first, and whether each has a second factor."""
    factors = Authenticator.objects.filter(user=OuterRef("pk")).exclude(type="recovery_codes")
    return User.objects.annotate(has_second_factor=Exists(factors)).order_by("-is_active", "username")


def _roles(request: HttpRequest) -> QuerySet[Role]:
    """The roles that the user may change: all, or those on the locations of which they are an admin."""
    if may_everywhere(request.user, Right.MEMBERS):
        return Role.objects.all()
    return Role.objects.filter(location__in=Location.objects.all())
