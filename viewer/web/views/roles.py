"""Who may do what, and why: the page on which roles are given and taken, and teams are changed."""

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from viewer.models import Level, Location, Right, Role, Team
from viewer.records.permissions import may_everywhere, requires
from viewer.records.roles import (
    account_named,
    add_member,
    give,
    held_roles,
    remove_member,
    take,
    team_named,
)
from viewer.validation import InvalidInput, one_line_text

# The locations that the form suggests. The path of any other can be typed.
MAX_OFFERED = 500


def _name(text: str) -> str:
    try:
        return one_line_text(text.strip(), 150)
    except InvalidInput:
        raise ValidationError(_("Enter a name.")) from None


class RoleForm(forms.Form):
    """Who gets which role, and where."""

    holder = forms.ChoiceField(choices=[("person", gettext_lazy("Person")), ("team", gettext_lazy("Team"))])
    name = forms.CharField(max_length=150)
    level = forms.TypedChoiceField(choices=Level, coerce=int)
    # The path of a location; empty for all.
    location = forms.CharField(max_length=1000, required=False)

    def clean_name(self) -> str:
        return _name(self.cleaned_data["name"])


@requires(Right.MEMBERS)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List the roles that the user may change, and the teams, which an admin of all locations may."""
    is_admin = may_everywhere(request.user, Right.MEMBERS)
    context = {
        "held": list(held_roles(_roles(request))),
        "teams": Team.objects.prefetch_related("members") if is_admin else [],
        "locations": Location.objects.all()[:MAX_OFFERED],
        "levels": Level.choices,
        "is_admin": is_admin,
    }
    return render(request, "roles/page.html", context)


@requires(Right.MEMBERS)
@require_POST
def give_role(request: HttpRequest) -> HttpResponse:
    """Give a role. Only an admin of all locations gives one on all, or to somebody new."""
    form, is_admin = RoleForm(request.POST), may_everywhere(request.user, Right.MEMBERS)
    if not form.is_valid():
        messages.error(request, " ".join(str(one) for errors in form.errors.values() for one in errors))
        return redirect("roles")
    sent = form.cleaned_data
    path, is_team = sent["location"].strip(), sent["holder"] == "team"
    found = list(_at(path)[:2]) if path else []
    if len(found) > 1:
        messages.error(request, _("Several hosts have %(path)s. Write HOST:PATH.") % {"path": path})
        return redirect("roles")
    location = found[0] if found else None
    if location is None and (path or not is_admin):
        messages.error(request, _("There is no location %(path)s.") % {"path": path})
        return redirect("roles")
    try:
        if is_admin:
            holder = team_named(sent["name"]) if is_team else account_named(sent["name"])
        else:
            holder = Team.objects.get(name=sent["name"]) if is_team else _known(sent["name"])
    except (ValidationError, Team.DoesNotExist, User.DoesNotExist) as error:
        unknown = _("There is no team or account %(name)s.") % {"name": sent["name"]}
        messages.error(request, " ".join(getattr(error, "messages", [unknown])))
        return redirect("roles")
    give(holder, Level(sent["level"]), location)
    messages.success(request, _("Saved."))
    return redirect("roles")


def _at(text: str) -> QuerySet[Location]:
    """The locations that a path or HOST:PATH names."""
    host, _colon, path = text.partition(":")
    return Location.objects.filter(Q(path=text) | Q(host__name=host, path=path))


def _known(name: str) -> User:
    return User.objects.get(username=name, is_active=True)


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


def _roles(request: HttpRequest) -> QuerySet[Role]:
    """The roles that the user may change: all, or those on the locations of which they are an admin."""
    if may_everywhere(request.user, Right.MEMBERS):
        return Role.objects.all()
    return Role.objects.filter(location__in=Location.objects.all())
