"""Logging in by a link, which works once."""

from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from sesame.views import LoginView


class LoginByLink(LoginView):
    """Logs in whoever has a link that was not used yet, and leads on."""

    def login_failed(self) -> HttpResponse:
        """Lead on who is logged in already, as after a second click; tell anybody else why it does not."""
        if self.request.user.is_authenticated:
            return HttpResponseRedirect(self.get_success_url())
        shown = {"form": AuthenticationForm(), "next": self.get_success_url(), "link_failed": True}
        return render(self.request, "login/page.html", shown, status=403)
