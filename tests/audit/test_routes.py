"""Each address that changes something or shows a checkpoint is recorded. A new one fails until it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from checkpoint_site.middleware.audit import ACTS, READS
from tests.views.access import test_urls
from tests.views.access.test_urls import ALL, API, BY_LINK, FORMS, HIDDEN, LOGIN, READ, SENT, addresses
from tests.views.bulk import test_bulk
from tests.views.conftest import check, checkpoint, entity, location
from tests.views.forking import CREW, filled, stored
from tests.views.launch.test_new_runs import form_of
from viewer.host_requests import ListPrunable, PruneRules, ask
from viewer.models import (
    AuditEntry,
    Checkpoint,
    Collection,
    Comment,
    Host,
    Job,
    Level,
    Location,
    PreflightCheck,
    Question,
    Role,
    ShareLink,
    Team,
)
from viewer.presentation.share_links import Subject, find_shared, make_link
from viewer.records.accounts import invite, make_token, teammate
from viewer.records.collections import Subject as Collected
from viewer.records.collections import add_items, lines_of

__all__ = ["addresses", "check", "checkpoint", "entity", "location"]
Made = tuple[str, dict[str, Any]]
# Forms that change nothing but what one person sees, that show a plan, or that read what is new.
UNRECORDED = {name for name in SENT if name.endswith("-plan")} | {
    *("location-refresh", "checkpoint-graph", "fork-next"),
    *("search-save", "search-remove", "settings-save", "run-mute"),
}
# Lists, and parts of pages that show no more than the page does.
LISTS = {
    *("home", "locations", "jobs", "inbox", "hosts", "stored-data", "settings", "site-notice", "palette"),
    *("run-rows", "run-branches", "run-jump", "run-again", "run-questions", "checkpoint", "preflight"),
    *("jobs-waiting", "job-wait", "inbox-count", "inbox-waiting", "search-locations", "locations-found"),
    *("location-paths", "share-preview", "share-preview-rows", "share-preview-picture"),
    *("shared-rows", "shared-picture", "collections", "notifications", "comment"),
}
# What people without a login do. See test_audit.py and tests/views/access/test_invitations.py.
BY_STRANGERS = {"login-link", "invitation", "password-reset", "account-mail-confirm"}
# They show no checkpoint.
OTHER_FORMS = {"new-run", "annotation", "prune", "share", "bulk-fork", "bulk-resume", "collection-add"}


@pytest.fixture(autouse=True)
def _enabled(settings: LazySettings, tmp_path: Path) -> None:
    settings.AUDIT, settings.CHECKPOINT_ROOTS = True, [tmp_path.resolve()]


def recorded() -> list[tuple[str, str, str]]:
    """The entries, without those of the fixtures at the terminal."""
    found = AuditEntry.objects.exclude(actor_kind="terminal").order_by("pk")
    return list(found.values_list("action", "kind", "result"))


def test_each_address_is_recorded_or_listed() -> None:
    assert set(ACTS) - API == (FORMS | SENT | BY_STRANGERS) - UNRECORDED
    assert set(READS) - API == (READ | FORMS | HIDDEN | {"shared", "shared-embed"}) - LISTS - OTHER_FORMS
    assert (
        set(ALL)
        == {*ACTS, *READS, *UNRECORDED, *LISTS, *API} | OTHER_FORMS | LOGIN | test_urls.PUBLIC | BY_LINK
    )


def test_what_is_sent_in_vain_is_recorded(reader: Client, addresses: dict[str, str]) -> None:
    for name in set(ACTS) - API - BY_STRANGERS:
        reader.post(addresses[name], {"text": "yes"})
        action, kind = ACTS[name]
        assert recorded()[-1:] == [(action, kind, "not_done")], name
    assert len(recorded()) == len(set(ACTS) - API) - len(BY_STRANGERS)


def test_what_is_opened_is_recorded(runner: Client, addresses: dict[str, str]) -> None:
    # The job of these addresses is a fork, which has no answers.
    for name in (
        set(READS) - API - {"shared", "shared-embed", "comparison-comments", "compare-export", "job-answers"}
    ):
        before = len(recorded())
        runner.get(addresses[name], headers={"HX-Request": "true"} if name == "checkpoint-history" else {})
        action, kind = READS[name]
        assert recorded()[before:] == [(action, kind, "done")], name


# What does each act, by the name of its address.


def _prune(location: Location, **_more: Any) -> Made:
    # The newest of a branch is protected.
    stored(location, CREW)
    digest = ask(ListPrunable(location.pk, PruneRules(0, None, "", False))).digest
    return reverse("prune", args=[location.uid]), {"days": "0", "digest": digest}


def _job(checkpoint: Checkpoint, **values: Any) -> Job:
    location = checkpoint.location
    return Job.objects.create(
        kind=Job.Kind.FORK, location=location, project=location.project, checkpoint=checkpoint, **values
    )


def _question(checkpoint: Checkpoint, **_more: Any) -> Made:
    job = _job(checkpoint, status=Job.Status.RUNNING)
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    return reverse("question-answer", args=[job.pk, 1]), {"text": "this one"}


def _give_up(checkpoint: Checkpoint, **_more: Any) -> Made:
    away = Host.objects.create(name="gpu-2", instance="2", address="gpu-2")
    return reverse("job-give-up", args=[_job(checkpoint, status=Job.Status.RUNNING, host=away).pk]), {}


def _moved(location: Location, **_more: Any) -> Made:
    path = Path(location.path)
    return reverse("location-path", args=[location.uid]), {"path": str(path.rename(path.with_name("moved")))}


def _replaced(location: Location, **_more: Any) -> Made:
    Location.objects.update(replaced_by="1 2")
    return reverse("location-replaced", args=[location.uid]), {"identity": "1 2"}


def _added(location: Location, **_more: Any) -> Made:
    (folder := Path(location.path).with_name("another")).mkdir()
    return reverse("location-add"), {"path": str(folder)}


def _revoked(checkpoint: Checkpoint, **_more: Any) -> Made:
    shared = find_shared(Subject(ShareLink.Kind.RUN, str(checkpoint.run.uid)))
    assert shared
    return reverse("share-revoke", args=[make_link(shared, teammate("maker", "run"))[0].pk]), {}


def _bulk(kind: str, checkpoint: Checkpoint, client: Client) -> Made:
    return reverse(f"bulk-{kind}"), test_bulk.sent(client, kind, [checkpoint])


def _project(location: Location, client: Client, **_more: Any) -> Made:
    address = reverse("project", args=[location.uid])
    assert location.project
    return address, {
        "folder": location.project.folder,
        "interpreter": location.project.interpreter,
        "entry_points": location.project.entry_points,
    }


def _removed_host(**_more: Any) -> Made:
    away = Host.objects.create(name="gpu-2", instance="2", address="gpu-2")
    return reverse("host-remove", args=[away.pk]), {}


def _taken_role(location: Location, **_more: Any) -> Made:
    role = Role.objects.create(team=Team.objects.create(name="ours"), location=location, level=Level.VIEWER)
    return reverse("role-take", args=[role.pk]), {}


def _quotas(**_more: Any) -> Made:
    return reverse("team-quotas", args=[Team.objects.create(name="ours").pk]), {"runs": "3"}


def _continued(location: Location, **_more: Any) -> Made:
    person = teammate("left")
    job = Job.objects.create(kind="fork", location=location, branch="left", requested_by=person)
    return reverse("job-continue", args=[job.pk]), {}


def _commented(route: str, **fields: str) -> Callable[..., Made]:
    def made(checkpoint: Checkpoint, **_more: Any) -> Made:
        comment = Comment.objects.create(
            location_uid=checkpoint.location.uid,
            run_key=checkpoint.run.key,
            text="Greener?",
            written_by=teammate("runner", "run"),
        )
        return reverse(route, args=[comment.pk]), fields

    return made


def _question_comment(checkpoint: Checkpoint, **_more: Any) -> Made:
    job = _job(checkpoint, status=Job.Status.RUNNING)
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    return reverse("question-comment-add", args=[job.pk, 1]), {"text": "This one."}


def _comparison_comment(checkpoint: Checkpoint, **_more: Any) -> Made:
    other = Checkpoint.objects.get(pk=checkpoint.pk)
    other.pk, other.checkpoint_id, other.row = None, "other", 99
    other.source_key = "other"
    other.save()
    pair = [f"{checkpoint.run.uid}/{one.checkpoint_id}" for one in (checkpoint, other)]
    query = {"a": pair[0], "b": pair[1]}
    return reverse("comparison-comment-add", query=query), {"text": "The other one."}


def _revealed(checkpoint: Checkpoint, **_more: Any) -> Made:
    form = {"pointer": "/entities/0/checkpoint_inputs/api_key", "reason": "rotate"}
    return reverse("hidden-reveal", args=[checkpoint.pk]), form


def _person(route: str, **fields: str) -> Callable[..., Made]:
    def made(**_more: Any) -> Made:
        person = teammate("eve")
        TOTP.activate(person, generate_totp_secret())
        return reverse(route, args=[person.pk]), fields

    return made


def _token(**_more: Any) -> Made:
    token, _text = make_token(teammate("ada"), "ci", Level.VIEWER)
    return reverse("token-revoke", args=[token.pk]), {}


def _new_run(location: Location, client: Client, **_more: Any) -> Made:
    address = reverse("new-run", args=[location.uid])
    return address, form_of(client, f"{address}?entry_point=crew:build")


def _sweep(checkpoint: Checkpoint, client: Client, **_more: Any) -> Made:
    address = reverse("new-sweep", args=[checkpoint.pk])
    form = filled(client, checkpoint, "new-sweep", branch="tone") | {"vary-input:topic": "tea\nmilk"}
    shown = client.post(f"{address}plan/", form).content.decode()
    return address, form | {"shown": test_bulk.shown(shown)}


def _collected(route: str, **fields: str) -> Callable[..., Made]:
    def made(checkpoint: Checkpoint, **_more: Any) -> Made:
        collection = Collection.objects.create(name="teas")
        (item,) = add_items(collection, [Collected(checkpoint)], None)
        sent: dict[str, Any] = dict(fields)
        if route == "collection-import":
            (line,) = lines_of(collection, "")
            item.delete()
            sent["file"] = SimpleUploadedFile("teas.jsonl", line.encode())
        return reverse(route, args=[item.pk if "item" in route else collection.pk]), sent

    return made


def _simple(route: str, key: str, /, **fields: str) -> Callable[..., Made]:
    def made(checkpoint: Checkpoint, location: Location, **_more: Any) -> Made:
        keys: dict[str, Any] = {"location": location.uid, "run": checkpoint.run.uid, "host": location.host_id}
        keys |= {"": None, "job": _job(checkpoint).pk if key == "job" else None}
        return reverse(route, args=[keys[key]] if key else []), fields

    return made


ACTIONS: dict[str, Callable[..., Made]] = {
    "location-add": _added,
    "location-path": _moved,
    "location-pool": _simple("location-pool", "location"),
    "location-cancel-import": _simple("location-cancel-import", "location"),
    "location-replaced": _replaced,
    "location-remove": _simple("location-remove", "location"),
    "prune": _prune,
    "project": _project,
    "project-limits": _simple("project-limits", "location", tokens="9"),
    "project-keys": _simple("project-keys", "location"),
    "project-isolation": _simple("project-isolation", "location", launcher="landlock", network="none"),
    "new-run": _new_run,
    "fork": lambda checkpoint, client, **_more: (
        reverse("fork", args=[checkpoint.pk]),
        filled(client, checkpoint, branch="what-if"),
    ),
    "resume": lambda checkpoint, client, **_more: (
        reverse("resume", args=[checkpoint.pk]),
        filled(client, checkpoint, "resume"),
    ),
    "new-sweep": _sweep,
    "bulk-fork": lambda checkpoint, client, **_more: _bulk("fork", checkpoint, client),
    "bulk-resume": lambda checkpoint, client, **_more: _bulk("resume", checkpoint, client),
    "collection-new": _simple("collection-new", "", name="teas"),
    "collection-add": lambda checkpoint, **_more: (
        reverse("collection-add"),
        {"name": "teas", "checkpoint": checkpoint.pk},
    ),
    "collection-change": _collected("collection-change", name="green teas"),
    "collection-delete": _collected("collection-delete"),
    "collection-import": _collected("collection-import"),
    "collection-item": _collected("collection-item", note="Green."),
    "collection-item-remove": _collected("collection-item-remove"),
    "annotation": _simple("annotation", "run", name="tea"),
    "annotation-star": _simple("annotation-star", "run"),
    "comment-add": _simple("comment-add", "run", text="Greener?"),
    "question-comment-add": _question_comment,
    "comparison-comment-add": _comparison_comment,
    "comment-edit": _commented("comment-edit", text="Green?"),
    "comment-delete": _commented("comment-delete"),
    "comment-resolve": _commented("comment-resolve", resolved="1"),
    "share": lambda checkpoint, **_more: (
        reverse("share", query={"kind": "run", "target": checkpoint.run.uid}),
        {"days": "7"},
    ),
    "share-revoke": _revoked,
    "day-limits": _simple("day-limits", "", tokens="9"),
    "job-start": _simple("job-start", "job", start="now"),
    "job-continue": _continued,
    "hidden-reveal": _revealed,
    "job-cancel": _simple("job-cancel", "job"),
    "job-give-up": _give_up,
    "question-answer": _question,
    "role-give": _simple("role-give", "", holder="team", name="ours", level="1"),
    "role-take": _taken_role,
    "invitation-new": _simple("invitation-new", "", level="1", days="7"),
    "invitation-revoke": lambda location, **_more: (
        reverse("invitation-revoke", args=[invite(None, level=Level.VIEWER, location=location)[0].pk]),
        {},
    ),
    "team-change": _simple("team-change", "", team="ours", name="eve"),
    "team-quotas": _quotas,
    "notifications-save": _simple("notifications-save", "", kind="mail", address="ada@example.org"),
    "host-drain": _simple("host-drain", "host", drained="yes"),
    "host-remove": _removed_host,
    "sessions-end": _person("sessions-end"),
    "person-reset-link": _person("person-reset-link"),
    "person-factors-remove": _person("person-factors-remove", reason="lost"),
    "person-active": _person("person-active"),
    "token-new": _simple("token-new", "", name="ci", level="1", days="7"),
    "token-revoke": _token,
}
# They queue their jobs as a fork does (viewer/launching/start.py): their tests need an engine.
AS_FORKS = {"publish", "replay", "replay-all", "collection-replay", "compare-score"}


@pytest.mark.parametrize("name", sorted(set(ACTS) - BY_STRANGERS - AS_FORKS - API))
def test_an_act_is_recorded_with_what_was_done(
    name: str, runner: Client, location: Location, checkpoint: Checkpoint, check: PreflightCheck
) -> None:
    address, form = ACTIONS[name](checkpoint=checkpoint, location=location, client=runner)
    before = len(recorded())
    runner.post(address, form)
    found = recorded()[before:]
    assert (*ACTS[name], "done") in found, (name, found)
    assert {result for _action, _kind, result in found} == {"done"}
