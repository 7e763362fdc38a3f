"""Every address is listed by who may open it and what it changes. A new address fails until it is listed."""

import re
import uuid
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse

from tests.views.forking import CREW, stored
from viewer.models import (
    Checkpoint,
    Collection,
    CollectionItem,
    Comment,
    Invitation,
    Job,
    Level,
    Location,
    PreflightCheck,
    Question,
    Role,
    SavedSearch,
    ShareLink,
    Sweep,
    Team,
)
from viewer.presentation.share_links import Subject, find_shared, make_link
from viewer.records.accounts import invite, make_token, teammate
from viewer.web.api.starting import SERVED
from viewer.web.live.consumer import websocket_urlpatterns

# Read-only pages accept no POST request.
READ = {
    *(
        "home",
        "location",
        "locations",
        "run",
        "run-rows",
        "run-again",
        "checkpoint",
        "checkpoint-raw",
        "preflight",
    ),
    *("jobs", "jobs-waiting", "job", "job-wait", "sweep", "inbox", "inbox-count", "question"),
    *("inbox-waiting", "compare", "search", "search-locations", "palette"),
    *("shares", "share-preview", "share-preview-rows", "share-preview-picture"),
    *("run-timeline", "job-timeline", "run-jump", "settings", "run-export", "compare-export", "stored-data"),
    *("checkpoint-history", "checkpoint-calls", "checkpoint-call", "job-answers"),
    "run-branches",
    "hosts",
    *("roles", "location-keys", "person"),
    *("roles", "tokens"),
    *("collections", "collection", "collection-export"),
    *("comments", "comment", "comparison-comments", "question-comments", "notifications"),
    *("locations-found", "location-paths", "run-questions", "site-notice", "code-difference"),
}
# Without the setting AUDIT, there is no such page. See tests/audit/test_page.py.
HIDDEN = {"audit", "audit-export", "hidden-values"}
# Logged-in users may read these and refresh a location. Everything else needs the right to run.
FOR_READERS = READ - {"preflight", "run-again", "shares", "share-preview", "share-preview-rows"} - {
    *(
        "share-preview-picture",
        "locations-found",
        "location-paths",
        "code-difference",
        "roles",
        "location-keys",
        "person",
    )
} | {
    *("location-refresh", "settings-save", "search-save", "search-remove"),
    *("tokens", "token-new", "token-revoke"),
    *("notifications-save", "run-mute"),
}
# GET shows these forms and changes nothing, POST sends them.
FORMS = {
    *("project", "new-run", "fork", "resume", "publish", "replay", "replay-all", "new-sweep"),
    *("annotation", "prune", "share", "bulk-fork", "bulk-resume", "collection-add", "collection-item"),
    "collection-replay",
}
# Addresses that only accept forms.
SENT = {
    *(
        "location-add",
        "bulk-fork-plan",
        "bulk-resume-plan",
        "location-path",
        "location-pool",
        "location-refresh",
        "location-cancel-import",
        "location-remove",
        "location-replaced",
        "project-limits",
        "project-keys",
        "project-isolation",
        "checkpoint-graph",
        "fork-next",
        "fork-plan",
        "resume-plan",
        "new-sweep-plan",
        "replay-plan",
        "replay-all-plan",
        "collection-replay-plan",
    ),
    *("new-run-plan", "compare-score"),
    *("search-save", "search-remove"),
    *("collection-new", "collection-change", "collection-delete", "collection-import"),
    "collection-item-remove",
    *("annotation-star", "settings-save", "share-revoke"),
    *(
        "day-limits",
        "job-start",
        "job-cancel",
        "job-give-up",
        "job-continue",
        "question-answer",
        "host-drain",
        "host-remove",
    ),
    *("role-give", "role-take", "team-change", "team-quotas", "invitation-new", "invitation-revoke"),
    *("notifications-save", "run-mute"),
    *(
        "comment-add",
        "comparison-comment-add",
        "question-comment-add",
        "comment-edit",
        "comment-delete",
        "comment-resolve",
    ),
    "hidden-reveal",
    *("token-new", "token-revoke"),
    *("sessions-end", "person-reset-link", "person-factors-remove", "person-active"),
}
# Login and logout, which show and change no data. An invitation creates an account: test_invitations.py.
# What somebody opens who is logging in: test_accounts.py and test_providers.py.
ENTRANCES = {
    *("account_login", "account_inactive", "mfa_authenticate", "password-forgotten", "password-reset"),
    *("github_login", "github_callback", "google_login", "google_callback", "openid_connect_login"),
    *("openid_connect_callback", "socialaccount_login_cancelled"),
}
# How one logs in, and one's sessions: test_accounts.py.
ACCOUNT = ENTRANCES | {
    *("account-mail", "account-mail-confirm"),
    *("account", "session-end", "account_change_password", "account_set_password"),
    *("account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn", "mfa_index"),
    *("mfa_activate_totp", "mfa_deactivate_totp", "mfa_list_webauthn", "mfa_add_webauthn"),
    *("mfa_edit_webauthn", "mfa_remove_webauthn", "mfa_view_recovery_codes", "account_logout"),
    *("mfa_generate_recovery_codes", "mfa_download_recovery_codes", "socialaccount_connections"),
}
LOGIN = {"login", "login-link", "logout", "invitation"} | ACCOUNT
# Health checks and metrics for monitoring, without a login.
PUBLIC = {"health", "metrics"}
# What a share link leads to: without a login, but with a token. See tests/sharing/test_routes.py.
BY_LINK = {"shared", "shared-rows", "shared-picture", "shared-embed"}
# The HTTP interface: with a token, not with a login. See tests/api/test_access.py.
API = {
    *("api-openapi", "api-locations", "api-location", "api-runs", "api-run", "api-checkpoints", "api-export"),
    *("api-checkpoint", "api-compare", "api-search", "api-jobs", "api-job", "api-questions", "api-sweep"),
    *("api-fork", "api-resume", "api-publish", "api-sweep-new", "api-replay"),
    *("api-cancel", "api-answer", "api-note", "api-job-events", "api-job-outcome"),
    *(f"api-command-{name}" for name in SERVED),
}
# Pages, without the partials that they fetch.
OFFERED = re.compile(r'(?:href|action|hx-get|hx-post)="(/(?!static/)[^"]*)"')
SOCKETS = {"ws/home/", "ws/locations/<uuid:uid>/", "ws/jobs/<uuid:pk>/", "ws/shared/<str:token>/", ""}


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for one in resolver.url_patterns:
        if isinstance(one, URLResolver):
            yield from patterns(one)
        else:
            yield one


ALL = {str(pattern.name): pattern for pattern in patterns(get_resolver())}


@pytest.fixture
def addresses(location: Location) -> dict[str, str]:
    return addresses_at(location)


def addresses_at(location: Location, person: str = "ada") -> dict[str, str]:
    """Return each address with the ids of existing objects, some of which belong to this person."""
    checkpoint = stored(location, CREW)
    assert location.project
    group = Sweep.objects.create(name="tone", checkpoint=checkpoint)
    job = Job.objects.create(
        kind=Job.Kind.FORK, location=location, project=location.project, checkpoint=checkpoint
    )
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    look = PreflightCheck.objects.create(checkpoint=checkpoint, project=location.project, fingerprint="f")
    saved = SavedSearch.objects.create(user=teammate(person), name="tea", query="q=tea")
    subject = Subject(ShareLink.Kind.RUN, str(checkpoint.run.uid))
    shared = find_shared(subject)
    assert shared
    item = CollectionItem.objects.create(
        collection=Collection.objects.create(name="teas"),
        kind="checkpoint",
        location_uid=location.uid,
        run_key=checkpoint.run.key,
        checkpoint_id=checkpoint.checkpoint_id,
        note="Green.",
    )
    comment = Comment.objects.create(
        location_uid=location.uid, run_key=checkpoint.run.key, text="Greener?", written_by=teammate(person)
    )
    link, _token = make_link(shared, teammate(person, "run"))
    token, _text = make_token(teammate(person), "ci", Level.VIEWER, [location])
    of = {
        ("uid", "location"): location.uid,
        ("uid", "run"): checkpoint.run.uid,
        ("uid", "sweep"): group.pk,
        ("pk", "checkpoint"): checkpoint.pk,
        ("pk", "job"): job.pk,
        ("pk", "host"): location.host_id,
        ("pk", "preflight"): look.pk,
        ("pk", "search"): saved.pk,
        ("pk", "share"): link.pk,
        ("pk", "collection"): item.collection_id,
        ("pk", "item"): item.pk,
        ("pk", "comment"): comment.pk,
        ("pk", "token"): token.pk,
        ("pk", "people"): teammate(person).pk,
        ("pk", "role"): Role.objects.create(user=saved.user, location=location, level=Level.VIEWER).pk,
        ("pk", "invitation"): invite(None, level=Level.VIEWER, location=location)[0].pk,
        ("pk", "team"): Team.objects.create(name=f"team of {person}").pk,
        ("what", "share"): subject.path,
    }
    own: dict[str, Any] = {"number": 1, "job": job.pk, "call": "0123456789ab"}
    found = {}
    for name, pattern in ALL.items():
        if name in LOGIN | PUBLIC | BY_LINK | API:
            continue
        kind = str(pattern.pattern).split("/")[0].removesuffix("s")
        given = {part: own[part] if part in own else of[part, kind] for part in pattern.pattern.converters}
        found[name] = reverse(name, kwargs=given)
    found["share"] += f"?kind=run&target={checkpoint.run.uid}"
    return found


def rows() -> dict[str, int]:
    """Return the number of rows that a request could create."""
    made = (Job, Sweep, Location, Checkpoint, ShareLink, Collection, CollectionItem, Comment, Invitation)
    return {model.__name__: model.objects.count() for model in made}


def test_each_address_is_listed() -> None:
    assert set(ALL) == READ | FORMS | SENT | LOGIN | PUBLIC | BY_LINK | HIDDEN | API
    assert {str(route.pattern) for route in websocket_urlpatterns} == SOCKETS


def test_visitors_are_redirected_to_the_login(client: Client, addresses: dict[str, str]) -> None:
    before = rows()
    for name, address in addresses.items():
        for ask in (client.get, client.post, client.put, client.delete):
            answer = ask(address)
            assert answer.status_code == 302, (name, answer.status_code)
            assert answer["Location"].split("?")[0] == reverse("login"), name
    assert rows() == before
    assert Question.objects.get().is_waiting and Job.objects.get().status == Job.Status.QUEUED


def test_get_requests_start_nothing_and_have_a_content_security_policy(
    runner: Client, addresses: dict[str, str]
) -> None:
    before = rows()
    for name, address in addresses.items():
        answer = runner.get(address)
        is_redirect = name in {
            "run-again",
            "run-jump",
            "checkpoint",
            "compare-export",
            "comparison-comments",
            "checkpoint-history",
            "comment",
        }
        shown = {405} if name in SENT else {302} if is_redirect else {404} if name in HIDDEN else {200, 204}
        assert answer.status_code in shown, (name, answer.status_code)
        assert answer.status_code != 405 or b"It only accepts a submitted form" in answer.content, name
        policy = answer["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy, name
        # The form shows the preview in a frame.
        assert answer["X-Frame-Options"] == ("SAMEORIGIN" if name == "share-preview" else "DENY"), name
        # Forms accept no other methods.
        assert runner.put(address).status_code == runner.delete(address).status_code == 405, name
    assert rows() == before
    assert Question.objects.get().is_waiting and Job.objects.get().status == Job.Status.QUEUED


def test_forms_without_a_csrf_token_are_refused(person: User, addresses: dict[str, str]) -> None:
    stranger = Client(enforce_csrf_checks=True)
    stranger.force_login(person)
    before = rows()
    for name, address in addresses.items():
        answer = stranger.post(address, {"key": str(uuid.uuid4()), "text": "yes"})
        # Django checks the token before the method.
        assert answer.status_code == 403, (name, answer.status_code)
    assert rows() == before
    assert Question.objects.get().is_waiting and Job.objects.get().status == Job.Status.QUEUED


def test_read_only_users_are_refused_everything_else(reader: Client, addresses: dict[str, str]) -> None:
    before = rows()
    for name, address in addresses.items():
        for answer in (reader.get(address), reader.post(address, {"key": str(uuid.uuid4()), "text": "yes"})):
            assert (answer.status_code == 403) == (name not in FOR_READERS), (name, answer.status_code)
            assert answer.status_code != 403 or b"Permission denied" in answer.content, name
    assert rows() == before
    assert Question.objects.get().is_waiting and Job.objects.get().status == Job.Status.QUEUED


def test_read_only_users_see_no_links_to_anything_else(reader: Client, addresses: dict[str, str]) -> None:
    for name in FOR_READERS & READ:
        page = reader.get(addresses[name], follow=True).content.decode()
        offered = {resolve(urlsplit(unescape(at)).path).view_name for at in OFFERED.findall(page)}
        assert offered <= FOR_READERS | LOGIN, (name, offered - FOR_READERS)


def test_read_only_pages_reject_post_requests(runner: Client, addresses: dict[str, str]) -> None:
    for name in READ:
        assert runner.post(addresses[name]).status_code == 405, name
