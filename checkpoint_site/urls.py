"""The root URLconf: login and the viewer."""

from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.urls import include, path

from checkpoint_site.middleware.pages import without_data
from checkpoint_site.middleware.throttle import (
    throttled_invitations,
    throttled_login_links,
    throttled_passwords,
    throttled_share_links,
)
from viewer.models import Right
from viewer.records.permissions import requires
from viewer.web.views import invitations, shared
from viewer.web.views.reader import LoginByLink
from viewer.web.views.server import health, show_metrics

by_password = auth_views.LoginView.as_view(template_name="login/page.html")
by_link = login_not_required(LoginByLink.as_view())

urlpatterns = [
    path("login/", throttled_passwords(by_password), name="login"),
    path("login/link/", throttled_login_links(by_link), name="login-link"),
    path("invitation/<str:token>/", throttled_invitations(invitations.show), name="invitation"),
    path("logout/", requires(Right.VIEW)(auth_views.LogoutView.as_view()), name="logout"),
    path("healthz", without_data(health), name="health"),
    path("metrics", without_data(show_metrics), name="metrics"),
    # All that a share link leads to. ?at=<checkpoint id>&tab=<tab> and the like choose a part of its object.
    path("shared/<str:token>/", throttled_share_links(shared.show), name="shared"),
    path("shared/<str:token>/rows/", throttled_share_links(shared.rows), name="shared-rows"),
    path("shared/<str:token>/picture.png", throttled_share_links(shared.picture), name="shared-picture"),
    path("", include("viewer.web.urls")),
]
handler500 = "checkpoint_site.middleware.pages.server_error_page"
