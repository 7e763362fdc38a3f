"""People: who may do what and why, teams, invitations, how somebody logs in, and help if they cannot."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.launching.edits import InvalidValue
from viewer.launching.options import parse_limit
from viewer.models import ApiToken, Invitation, InvitationState, Level, Location, Right, Role, Team
from viewer.presentation.jobs.status import team_usage
from viewer.records import accounts
from viewer.records.annotations import has_changed, mark_of
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
from viewer.validation import InvalidInput, one_line_text
from viewer.web.views.accounts import account_of, is_confirmed, providers, to_confirm
from viewer.web.views.shares import origin_of

# The forms of roles, invitations, teams and quotas.


# The locations that the form suggests. The path of any other can be typed.
MAX_OFFERED = 500
# What a text field of these forms looks like.
INPUT = {"class": "input", "autocomplete": "off"}
SELECT = {"class": "input"}


class NameField(forms.CharField):
    """The name of a person or team."""

    def __init__(self, label: Any, **attrs: str) -> None:
        widget = forms.TextInput(attrs={**INPUT, **attrs})
        super().__init__(
            label=label,
            max_length=150,
            widget=widget,
            error_messages={"required": gettext_lazy("Enter a name.")},
        )

    def clean(self, value: Any) -> str:
        try:
            return one_line_text(super().clean(value), 150)
        except InvalidInput:
            raise ValidationError(_("Enter a name.")) from None


class PlaceForm(forms.Form):
    """Where a role is given. Only an admin of all locations gives one on all."""

    # PATH or HOST:PATH of a location; empty for all.
    location = forms.CharField(
        label=gettext_lazy("Location"),
        max_length=1000,
        required=False,
        widget=forms.TextInput(
            attrs={
                **INPUT,
                "class": "input input-mono",
                "list": "role-locations",
                "autocapitalize": "none",
                "spellcheck": "false",
            }
        ),
    )

    # Of the ids of its fields.
    id_prefix: str

    def __init__(self, data: Any, *, is_admin: bool) -> None:
        super().__init__(data, auto_id=f"{self.id_prefix}-%s")
        self.is_admin = is_admin
        place = self.fields["location"]
        place.required = not is_admin
        if is_admin:
            place.help_text = _("Empty for all locations, also those that are added later.")

    def clean_location(self) -> Location | None:
        text = self.cleaned_data["location"].strip()
        return location_named(text) if text else None


class RoleForm(PlaceForm):
    """Who gets which role, and where. Only an admin of all locations gives one to somebody new."""

    holder = forms.ChoiceField(
        label=gettext_lazy("Who"),
        choices=[("person", gettext_lazy("Person")), ("team", gettext_lazy("Team"))],
        widget=forms.Select(SELECT),
    )
    name = NameField(gettext_lazy("Name"))
    level = forms.TypedChoiceField(
        label=gettext_lazy("Role"), choices=Level, coerce=int, widget=forms.Select(SELECT)
    )
    field_order = ("holder", "name", "level", "location")
    id_prefix = "role"

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.errors:
            return values
        name, is_team = values["name"], values["holder"] == "team"
        if self.is_admin:
            try:
                return values | {"holder": team_named(name) if is_team else account_named(name)}
            except ValidationError as error:
                self.add_error("name", error.messages)
                return values
        teams, people = Team.objects.filter(name=name), User.objects.filter(username=name, is_active=True)
        holder = (teams if is_team else people).first()
        if holder is None:
            self.add_error("name", _("There is no team or account %(name)s.") % {"name": name})
        return values | {"holder": holder}


def _expiry_choices() -> list[tuple[int, str]]:
    texts = [ngettext("%(count)s day", "%(count)s days", days) for days in accounts.INVITATION_DAYS]
    return [
        (days, text % {"count": days}) for days, text in zip(accounts.INVITATION_DAYS, texts, strict=True)
    ]


class InvitationForm(PlaceForm):
    """What an invited person gets, and how long the link works."""

    level = forms.TypedChoiceField(
        label=gettext_lazy("Role"),
        choices=Level,
        initial=Level.VIEWER,
        coerce=int,
        empty_value=None,
        required=False,
        widget=forms.Select(SELECT),
    )
    # The name of a team.
    team = forms.CharField(
        label=gettext_lazy("Team"), max_length=150, required=False, widget=forms.HiddenInput
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Expires after"), choices=_expiry_choices, coerce=int, widget=forms.Select(SELECT)
    )
    field_order = ("level", "location", "team", "days")
    id_prefix = "invited"

    def __init__(self, data: Any, *, is_admin: bool) -> None:
        super().__init__(data, is_admin=is_admin)
        level, team = self.fields["level"], self.fields["team"]
        assert isinstance(level, forms.ChoiceField)
        if is_admin:
            level.choices = [*Level.choices, ("", _("Only those of the team"))]
            names = Team.objects.values_list("name", flat=True)
            team.widget = forms.Select(SELECT, [("", _("None")), *((name, name) for name in names)])

    def clean_team(self) -> Team | None:
        name = self.cleaned_data["team"].strip()
        team = Team.objects.filter(name=name).first() if name and self.is_admin else None
        if name and team is None:
            raise ValidationError(_("There is no team or account %(name)s.") % {"name": name})
        return team


class MemberForm(forms.Form):
    """A team, and the person who joins it."""

    team = NameField(gettext_lazy("Team"), list="team-names")
    name = NameField(gettext_lazy("Person"))

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="member-%s")

    def add(self) -> bool:
        """Add the person to the team, both created if new. False if a name is refused, with its error."""
        refused = "team"
        try:
            with transaction.atomic():
                team = team_named(self.cleaned_data["team"])
                refused = "name"
                add_member(team, account_named(self.cleaned_data["name"]))
        except ValidationError as error:
            self.add_error(refused, error.messages)
        return not self.errors


class QuotaField(forms.CharField):
    """A quota as a number; None if it is empty, for no quota."""

    def __init__(self, measure: str, label: Any) -> None:
        self.measure = measure
        widget = forms.TextInput({**INPUT, "inputmode": "decimal"})
        super().__init__(required=False, label=label, max_length=30, widget=widget)

    def clean(self, value: Any) -> float | None:
        text = super().clean(value)
        try:
            return parse_limit(self.measure, text) if text else None
        except InvalidValue as invalid:
            raise ValidationError(str(invalid)) from None


class QuotasForm(forms.Form):
    """The quotas of a team. Those that somebody has changed since the page was shown are an error."""

    runs = QuotaField("runs", gettext_lazy("Runs at once"))
    tokens = QuotaField("tokens", gettext_lazy("Tokens a day"))
    cost = QuotaField("cost", gettext_lazy("US dollars a day"))

    def __init__(self, data: Any, team: Team) -> None:
        super().__init__(data, auto_id=f"%s-{team.pk}", initial=team.quotas)
        self.team = team

    def clean(self) -> dict[str, Any]:
        if has_changed(self.data, self.team.quotas):
            raise ValidationError(_("Somebody changed these quotas. Check them, and save again."))
        return {name: value for name, value in self.cleaned_data.items() if value is not None}


# The page on which roles are given and taken, and teams are changed.


@dataclass(frozen=True, slots=True)
class ShownTeam:
    """A team with the form of its quotas, how much is used, and the mark of the quotas (``seen``)."""

    team: Team
    form: QuotasForm
    used: list[str]
    seen: str


@requires(Right.MEMBERS)
@require_GET
def show_roles(request: HttpRequest) -> HttpResponse:
    """List the roles that the user may change, and the teams, which an admin of all locations may."""
    return _roles_page(request)


def _roles_page(
    request: HttpRequest,
    *,
    role: RoleForm | None = None,
    invitation: InvitationForm | None = None,
    member: MemberForm | None = None,
    quotas: QuotasForm | None = None,
) -> HttpResponse:
    """The page, with the form that was refused, if any."""
    is_admin = may_everywhere(request.user, Right.MEMBERS)
    context = {
        "held": list(held_roles(_roles(request))),
        "people": _people() if is_admin else [],
        "teams": _teams(quotas) if is_admin else [],
        "locations": Location.objects.all()[:MAX_OFFERED],
        "invitations": [
            one
            for one in accounts.open_invitations()
            if accounts.invitation_state(one) == InvitationState.WORKS
        ],
        "is_admin": is_admin,
        "role_form": role or RoleForm(None, is_admin=is_admin),
        "invitation_form": invitation or InvitationForm(None, is_admin=is_admin),
        "member_form": member or MemberForm(None),
    }
    is_refused = role or invitation or member or quotas
    return render(request, "roles/page.html", context, status=422 if is_refused else 200)


def _teams(refused: QuotasForm | None) -> list[ShownTeam]:
    """All teams, one of them with the form of quotas that was refused."""
    shown = []
    for team in Team.objects.prefetch_related("members"):
        form = refused if refused and refused.team == team else QuotasForm(None, team)
        shown.append(ShownTeam(team, form, team_usage(team), mark_of(team.quotas)))
    return shown


@requires(Right.MEMBERS)
@require_POST
def give_role(request: HttpRequest) -> HttpResponse:
    """Give a role, or say why not."""
    form = RoleForm(request.POST, is_admin=may_everywhere(request.user, Right.MEMBERS))
    if not form.is_valid():
        return _roles_page(request, role=form)
    given = form.cleaned_data
    give(given["holder"], Level(given["level"]), given["location"])
    messages.success(request, _("Saved."))
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
    form = MemberForm(request.POST)
    if form.is_valid() and request.POST.get("change") == "remove":
        team = get_object_or_404(Team, name=form.cleaned_data["team"])
        remove_member(team, get_object_or_404(team.members, username=form.cleaned_data["name"]))
    elif not form.is_valid() or not form.add():
        return _roles_page(request, member=form)
    messages.success(request, _("Saved."))
    return redirect("roles")


@requires(Right.LIMITS, everywhere=True)
@require_POST
def change_quotas(request: HttpRequest, pk: int) -> HttpResponse:
    """Set what the jobs of a team may use together, or say why not."""
    team = get_object_or_404(Team, pk=pk)
    form = QuotasForm(request.POST, team)
    if not form.is_valid():
        return _roles_page(request, quotas=form)
    set_quotas(team, form.cleaned_data)
    messages.success(request, _("Saved."))
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


# The page of a person, for an admin.


@requires(Right.MEMBERS, everywhere=True)
@require_GET
def show_person(request: HttpRequest, pk: int) -> HttpResponse:
    """Show how a person logs in and what they may do, and the forms that help them."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    return _person_page(request, person)


def _person_page(request: HttpRequest, person: User, refused: str = "") -> HttpResponse:
    """The page, with why a change was refused, if one was."""
    context = {
        "person": person,
        "factors": Authenticator.objects.filter(user=person).exclude(type="recovery_codes"),
        "sessions": accounts.sessions_of(person),
        "tokens": [token for token in ApiToken.objects.filter(user=person) if token.works],
        "held": [one for one in held_roles() if one.person == person],
        "reasons": accounts.REASONS.items(),
        "refusal": _refusal(request, person),
        "refused": refused,
    }
    return render(request, "people/page.html", context, status=422 if refused else 200)


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def reset_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a link for a new password, and show it, once."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        address = origin_of(request) + accounts.make_reset_link(person, account_of(request))
    except accounts.ChangeRefused as refused:
        messages.error(request, " ".join(refused.messages))
        return redirect("person", pk)
    expires_at = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    return render(
        request, "people/link.html", {"person": person, "address": address, "expires_at": expires_at}
    )


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def remove_factors(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove the second factors of a person, for a reason."""
    reason = request.POST.get("reason", "")
    return _changed(request, pk, lambda person, admin: accounts.remove_second_factors(person, reason, admin))


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def change_active(request: HttpRequest, pk: int) -> HttpResponse:
    """Deactivate an account, or activate it again."""
    is_active = request.POST.get("active") == "yes"
    return _changed(
        request, pk, lambda person, admin: accounts.set_active(person, admin, is_active=is_active)
    )


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def end_all_sessions(request: HttpRequest, pk: int) -> HttpResponse:
    """End all sessions of a person."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("roles"))
    accounts.end_sessions(person)
    messages.success(request, _("Ended all sessions of %(name)s.") % {"name": person})
    return redirect("roles")


def _changed(request: HttpRequest, pk: int, change: Callable[[User, User], object]) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        change(person, account_of(request))
    except accounts.ChangeRefused as refused:
        return _person_page(request, person, " ".join(refused.messages))
    messages.success(request, _("Saved."))
    return redirect("person", pk)


def _refusal(request: HttpRequest, person: User) -> str:
    try:
        accounts.check_change(person, account_of(request))
    except accounts.ChangeRefused as refused:
        return " ".join(refused.messages)
    return ""


# Invitations.


@requires(Right.MEMBERS)
@require_POST
def new_invitation(request: HttpRequest) -> HttpResponse:
    """Make an invitation, and show its link, once: only a hash of its token is stored."""
    form = InvitationForm(request.POST, is_admin=may_everywhere(request.user, Right.MEMBERS))
    if not form.is_valid():
        return _roles_page(request, invitation=form)
    given = form.cleaned_data
    try:
        invitation, token = accounts.invite(
            account_of(request),
            level=Level(given["level"]) if given["level"] else None,
            location=given["location"],
            team=given["team"],
            days=given["days"],
        )
    except accounts.InvitationRefused as refused:
        form.add_error("level", refused.messages)
        return _roles_page(request, invitation=form)
    address = origin_of(request) + reverse("invitation", args=[token])
    return render(request, "invitations/made.html", {"invitation": invitation, "address": address})


@requires(Right.MEMBERS)
@require_POST
def revoke_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Make an invitation stop working."""
    invitation = get_object_or_404(Invitation, pk=pk)
    if accounts.revoke_invitation(invitation):
        messages.success(request, _("Revoked."))
    else:
        messages.error(request, _("This invitation was already used or revoked."))
    return redirect("roles")


@login_not_required
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
def show_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show what an invitation gives, and accept it, once: as a new account, or as the one that is logged in.

    Opening the link does not use it: a chat that makes a preview, or a browser that prefetches, opens it too.
    """
    invitation = accounts.invitation_with(token)
    state = accounts.invitation_state(invitation) if invitation else None
    if invitation is None or state != InvitationState.WORKS:
        return render(request, "invitations/dead.html", {"state": state}, status=403)
    form: Any = UserCreationForm(request.POST if request.method == "POST" else None)
    try:
        if request.method == "POST" and isinstance(request.user, User):
            accounts.accept_invitation(token, request.user)
            return redirect("home")
        if form.is_valid():
            return _join(request, token, form)
    except accounts.InvitationRefused:
        return render(request, "invitations/dead.html", {"state": InvitationState.USED}, status=403)
    except ValidationError as error:
        form.add_error(None, error)
    context = {"invitation": invitation, "form": form, "token": token, "providers": providers(request)}
    return render(request, "invitations/page.html", context, status=422 if form.is_bound else 200)


def _join(request: HttpRequest, token: str, form: Any) -> HttpResponse:
    """Create the account, and log it in. Of two simultaneous requests, one does."""
    person = form.save(commit=False)
    with transaction.atomic():
        accounts.accept_invitation(token, person)
        login(request, person, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("home")
