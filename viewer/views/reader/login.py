"""Login with a one-time link."""

from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from sesame.views import LoginView


class LoginByLink(LoginView):
    """Log in with an unused link, and redirect."""

    def login_failed(self) -> HttpResponse:
        """Redirect a logged-in user, as after a second click; show others why the link failed."""
        if self.request.user.is_authenticated:
            return HttpResponseRedirect(self.get_success_url())
        shown = {"form": AuthenticationForm(), "next": self.get_success_url(), "link_failed": True}
        return render(self.request, "login/page.html", shown, status=403)
