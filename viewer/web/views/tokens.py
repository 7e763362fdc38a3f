"""API tokens, with which programs use the HTTP interface as a person: making, listing and revoking them."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from viewer.models import ApiToken, Level, Location, Right, access_of
from viewer.records.locations import location_named
from viewer.records.permissions import may_everywhere, requires
from viewer.records.tokens import EXPIRY_DAYS, TokenRefused, make_token, revoke_token
from viewer.validation import InvalidInput, one_line_text

# The newest tokens that the list shows, and the locations that one form names.
MAX_TOKENS, MAX_LOCATIONS = 500, 100


class TokenForm(forms.Form):
    """What a new token is called, what it may do, where, and how long. Offers the roles of its person."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    level = forms.TypedChoiceField(label=gettext_lazy("Role"), coerce=int)
    # A path on each line; empty for all locations that the person sees.
    locations = forms.CharField(
        label=gettext_lazy("Locations"),
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input input-mono"}),
        help_text=gettext_lazy("One path on each line. Empty for all that you see, also those added later."),
    )
    days = forms.TypedChoiceField(label=gettext_lazy("Expires after"), coerce=int)

    def __init__(self, data: Any, user: Any) -> None:
        super().__init__(data)
        levels: Any = self.fields["level"]
        levels.choices = [(one, label) for one, label in Level.choices if one <= access_of(user).highest]
        days: Any = self.fields["days"]
        days.choices = [
            (number, ngettext("%(count)s day", "%(count)s days", number) % {"count": number})
            for number in EXPIRY_DAYS
        ]
        for field in self.fields.values():
            field.widget.attrs.setdefault("class", "input")

    def clean_name(self) -> str:
        try:
            return one_line_text(self.cleaned_data["name"], 100)
        except InvalidInput:
            raise ValidationError(_("Enter a name.")) from None

    def clean_locations(self) -> list[Location] | None:
        lines = [line for line in self.cleaned_data["locations"].splitlines() if line.strip()]
        if len(lines) > MAX_LOCATIONS:
            raise ValidationError(_("Name %(most)s locations at most.") % {"most": MAX_LOCATIONS})
        return [location_named(line) for line in lines] or None


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List the user's tokens, or for an admin of all locations everybody's, and show the form."""
    return _page(request, TokenForm(None, request.user))


@requires(Right.VIEW)
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    """Make a token, and show it once: only a hash of it is stored, so nothing redirects to it."""
    form = TokenForm(request.POST, request.user)
    if not form.is_valid():
        return _page(request, form, status=422)
    assert isinstance(request.user, User)
    given = form.cleaned_data
    level = Level(given["level"])
    try:
        token, text = make_token(request.user, given["name"], level, given["locations"], days=given["days"])
    except TokenRefused:
        form.add_error("locations", _("You do not have this role at all of these locations."))
        return _page(request, form, status=422)
    return render(request, "tokens/made.html", {"token": token, "text": text})


@requires(Right.VIEW)
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token."""
    token = get_object_or_404(_tokens(request), pk=pk)
    if revoke_token(token):
        messages.success(request, _("%(name)s no longer works.") % {"name": token.name})
    return redirect("tokens")


def _page(request: HttpRequest, form: TokenForm, status: int = 200) -> HttpResponse:
    tokens = _tokens(request).select_related("user").prefetch_related("locations")
    context = {"tokens": tokens[:MAX_TOKENS], "form": form}
    return render(request, "tokens/page.html", context, status=status)


def _tokens(request: HttpRequest) -> QuerySet[ApiToken]:
    """The tokens that the user may revoke."""
    if may_everywhere(request.user, Right.MEMBERS):
        return ApiToken.objects.all()
    return ApiToken.objects.filter(user=request.user.pk or 0)
