"""The root URLconf: login and the viewer."""

from csp.decorators import csp_update
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.urls import include, path

from checkpoint_site.middleware.responses import without_data
from checkpoint_site.middleware.throttle import (
    throttled_invitations,
    throttled_login_links,
    throttled_mail,
    throttled_passwords,
    throttled_reset_links,
    throttled_share_links,
)
from viewer.models import Right
from viewer.records.permissions import requires
from viewer.web.views import accounts, people, shares
from viewer.web.views.accounts import LoginByLink, LoginByPassword, to_provider
from viewer.web.views.server import health, show_metrics

# Where allauth has its views. It looks addresses up by their names.
OIDC, SOCIAL = "openid_connect.views", "socialaccount.views"
KEYS, CODES = "mfa.webauthn.views", "mfa.recovery_codes.views"
by_password = throttled_passwords(LoginByPassword.as_view())
by_link = login_not_required(LoginByLink.as_view())
logout = requires(Right.VIEW)(auth_views.LogoutView.as_view())


def own(name: str) -> accounts.View:
    """Return a view of allauth with which somebody who is logged in changes their account."""
    return requires(Right.VIEW)(accounts.allauth_view(name))


def guessed(name: str) -> accounts.View:
    """Return such a view with a form for a password or a code."""
    return requires(Right.VIEW)(throttled_passwords(accounts.allauth_view(name)))


def entrance(name: str) -> accounts.View:
    """Return a view of allauth for somebody who logs in."""
    return login_not_required(accounts.allauth_view(name))


second_factor = login_not_required(throttled_passwords(accounts.allauth_view("mfa.base.views.authenticate")))
# The picture with the secret of an authenticator app is in the page.
activate_totp = csp_update({"img-src": ["data:"]})(own("mfa.totp.views.activate_totp"))

login_urls = [
    path("login/", by_password, name="account_login"),
    path("login/second/", second_factor, name="mfa_authenticate"),
    path("login/inactive/", entrance("account.views.account_inactive"), name="account_inactive"),
    path("login/github/", to_provider("github.views.oauth2_login"), name="github_login"),
    path("login/github/back/", to_provider("github.views.oauth2_callback"), name="github_callback"),
    path("login/google/", to_provider("google.views.oauth2_login"), name="google_login"),
    path("login/google/back/", to_provider("google.views.oauth2_callback"), name="google_callback"),
    path("login/oidc/<slug:provider_id>/", to_provider(f"{OIDC}.login"), name="openid_connect_login"),
    path(
        "login/oidc/<slug:provider_id>/back/", to_provider(f"{OIDC}.callback"), name="openid_connect_callback"
    ),
    path("login/cancelled/", entrance(f"{SOCIAL}.login_cancelled"), name="socialaccount_login_cancelled"),
    path("logout/", logout, name="account_logout"),
]
account_urls = [
    path("", accounts.show, name="account"),
    path("sessions/end/", accounts.end, name="session-end"),
    path("mail/", accounts.change_address, name="account-mail"),
    path("mail/<str:token>/", accounts.confirm_address, name="account-mail-confirm"),
    path("password/", guessed("account.views.password_change"), name="account_change_password"),
    path("password/set/", own("account.views.password_set"), name="account_set_password"),
    path("providers/", own(f"{SOCIAL}.connections"), name="socialaccount_connections"),
    path("confirm/", guessed("account.views.reauthenticate"), name="account_reauthenticate"),
    path("confirm/code/", guessed("mfa.base.views.reauthenticate"), name="mfa_reauthenticate"),
    path("confirm/key/", guessed(f"{KEYS}.reauthenticate_webauthn"), name="mfa_reauthenticate_webauthn"),
    path("factors/", own("mfa.base.views.index"), name="mfa_index"),
    path("factors/app/", activate_totp, name="mfa_activate_totp"),
    path("factors/app/remove/", own("mfa.totp.views.deactivate_totp"), name="mfa_deactivate_totp"),
    path("factors/keys/", own(f"{KEYS}.list_webauthn"), name="mfa_list_webauthn"),
    path("factors/keys/add/", own(f"{KEYS}.add_webauthn"), name="mfa_add_webauthn"),
    path("factors/keys/<int:pk>/", own(f"{KEYS}.edit_webauthn"), name="mfa_edit_webauthn"),
    path("factors/keys/<int:pk>/remove/", own(f"{KEYS}.remove_webauthn"), name="mfa_remove_webauthn"),
    path("factors/codes/", own(f"{CODES}.view_recovery_codes"), name="mfa_view_recovery_codes"),
    path("factors/codes/new/", own(f"{CODES}.generate_recovery_codes"), name="mfa_generate_recovery_codes"),
    path("factors/codes/file/", own(f"{CODES}.download_recovery_codes"), name="mfa_download_recovery_codes"),
]

urlpatterns = [
    path("login/", by_password, name="login"),
    path("login/link/", throttled_login_links(by_link), name="login-link"),
    path("invitation/<str:token>/", throttled_invitations(people.show_invitation), name="invitation"),
    path("logout/", logout, name="logout"),
    *login_urls,
    path("account/", include(account_urls)),
    path("password/forgotten/", throttled_mail(accounts.forgot), name="password-forgotten"),
    path("password/new/<str:token>/", throttled_reset_links(accounts.reset), name="password-reset"),
    path("healthz", without_data(health), name="health"),
    path("metrics", without_data(show_metrics), name="metrics"),
    # All that a share link leads to. ?at=<checkpoint id>&tab=<tab> and the like choose a part of its object.
    path("shared/<str:token>/", throttled_share_links(shares.show), name="shared"),
    path("shared/<str:token>/rows/", throttled_share_links(shares.rows), name="shared-rows"),
    path("shared/<str:token>/picture.png", throttled_share_links(shares.picture), name="shared-picture"),
    path("shared/<str:token>/embed/", throttled_share_links(shares.embed), name="shared-embed"),
    # For programs, with a token.
    path("api/", include("viewer.web.api.starting")),
    path("", include("viewer.web.urls")),
]
handler500 = "checkpoint_site.middleware.responses.server_error_page"
