"""Login with a one-time link."""

from django.contrib.auth.forms import AuthenticationForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from sesame.utils import get_user
from sesame.views import LoginView


class LoginByLink(LoginView):
    """Show a button for an unused link. It logs in, and redirects.

    Opening the link does not use it: a chat that makes a preview, or a browser that prefetches, opens it too.
    """

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the button, or why the link does not work."""
        user = get_user(request, update_last_login=False)
        if user is None:
            return self.login_failed()
        return render(request, "login/link.html", {"name": user.get_username()})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Use the link. Of two simultaneous requests, one does."""
        if get_user(request, update_last_login=False) is None:
            return self.login_failed()
        with transaction.atomic():
            response: HttpResponse = super().get(request)  # type: ignore[no-untyped-call]
        return response

    def login_failed(self) -> HttpResponse:
        """Redirect a logged-in user, as after a second click; show others why the link failed."""
        if self.request.user.is_authenticated:
            return HttpResponseRedirect(self.get_success_url())
        shown = {"form": AuthenticationForm(), "next": self.get_success_url(), "link_failed": True}
        return render(self.request, "login/page.html", shown, status=403)
