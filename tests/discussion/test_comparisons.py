"""Comments on the comparison of two checkpoints: one discussion for each pair, for those who see both."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from tests.api.conftest import program_of
from tests.discussion.test_comments import ada, client_of, eve, text_of
from tests.terminal import Terminal
from tests.views.forking import CREW, create_location, stored
from viewer.host.locations.pruning import Protected, plan_prune
from viewer.host_requests import PruneRules
from viewer.models import AuditEntry, Checkpoint, Comment, Level, Location, Role, Run
from viewer.records import annotations
from viewer.records.accounts import teammate
from viewer.records.annotations import about_comparison, commented_ids, comments_in, mentioned_in
from viewer.records.permissions import account_named

__all__ = ["ada", "eve"]
Pair = tuple[Checkpoint, Checkpoint]


def query_of(*pair: Checkpoint) -> str:
    return urlencode(dict(zip("ab", (f"{one.run.uid}/{one.checkpoint_id}" for one in pair), strict=False)))


def address_of(*pair: Checkpoint) -> str:
    return f"{reverse('comparison-comments')}?{query_of(*pair)}"


def adding(*pair: Checkpoint) -> str:
    return f"{reverse('comparison-comment-add')}?{query_of(*pair)}"


@pytest.fixture
def pair(crew_run: Run) -> Pair:
    first, second = crew_run.checkpoints.select_related("run", "location").order_by("row")[:2]
    return first, second


@pytest.fixture
def theirs(crew_location: Location, tmp_path: Path) -> Checkpoint:
    """Return a checkpoint of another location, which ada and eve do not see."""
    return stored(create_location(tmp_path / "other"), CREW)


def test_a_pair_has_one_discussion_in_either_order(ada: Client, eve: Client, pair: Pair) -> None:
    first, second = pair
    assert ada.post(adding(first, second), {"text": "The **second** is better. @eve"}).status_code == 302
    comment = Comment.objects.get()
    eve.post(adding(second, first), {"text": "No.", "reply_to": comment.pk})
    for order in (pair, pair[::-1]):
        shown = text_of(ada, address_of(*order))
        assert "<strong>second</strong>" in shown and "No." in shown
        compared = text_of(ada, f"{reverse('compare')}?{query_of(*order)}")
        assert "open discussion" in compared and reverse("comparison-comments") in compared
    assert [one.username for one in comment.mentioned.all()] == ["eve"]
    led = ada.get(reverse("comment", args=[comment.pk]))["Location"]
    assert led.startswith(reverse("comparison-comments")) and ada.get(led).status_code == 200


def test_a_run_and_its_checkpoints_do_not_list_it(ada: Client, pair: Pair, crew_run: Run) -> None:
    ada.post(adding(*pair), {"text": "Hello."})
    assert not comments_in(crew_run).exists()
    for address in (reverse("comments", args=[crew_run.uid]), crew_run.get_absolute_url()):
        assert "Hello." not in text_of(ada, address) and "open discussion" not in text_of(ada, address)
    ada.post(f"{reverse('comment-add', args=[crew_run.uid])}?at={pair[0].checkpoint_id}", {"text": "On one."})
    assert "On one." not in text_of(ada, address_of(*pair))
    on_one = Comment.objects.get(text="On one.")
    assert ada.post(adding(*pair), {"text": "x", "reply_to": on_one.pk}).status_code == 404


def test_only_those_who_see_both_locations_see_it(ada: Client, pair: Pair, theirs: Checkpoint) -> None:
    first, _second = pair
    both = client_of("both", first.location, Level.OPERATOR)
    person = both.session["_auth_user_id"]
    role = Role.objects.create(user_id=person, location=theirs.location, level=Level.VIEWER)
    hidden = annotations.write(about_comparison(first, theirs), None, "@ada and @both see this.")
    assert [one.username for one in hidden.mentioned.all()] == ["both"]
    # The outcome is the same as for a checkpoint that does not exist.
    for order in ((first, theirs), (theirs, first)):
        assert ada.get(address_of(*order)).status_code == 302
        assert ada.post(adding(*order), {"text": "x"}).status_code == 404
    for name in ("comment-edit", "comment-delete", "comment-resolve"):
        assert ada.post(reverse(name, args=[hidden.pk]), {"text": "x"}).status_code == 404
    assert ada.get(reverse("comment", args=[hidden.pk])).status_code == 404
    # A viewer of one of both reads, and writes nothing.
    shown = text_of(both, address_of(first, theirs))
    assert "see this" in shown and "<textarea" not in shown
    assert both.post(adding(first, theirs), {"text": "x"}).status_code == 404
    assert both.post(reverse("comment-resolve", args=[hidden.pk]), {"resolved": "1"}).status_code == 404
    assert Comment.objects.count() == 1
    role.level = Level.OPERATOR
    role.save()
    both.post(adding(first, theirs), {"text": "Me too."})
    assert "Me too." in text_of(both, address_of(theirs, first))
    # Neither are the names of those offered who do not see both.
    offered = text_of(both, address_of(first, theirs))
    assert "@ada" not in offered.split('id="comment-hint"')[1].split("</form>")[0]


def test_only_people_who_see_both_are_mentioned(ada: Client, pair: Pair, theirs: Checkpoint) -> None:
    client_of("otto", theirs.location, Level.ADMIN)
    teammate("everywhere", "view")
    subject = about_comparison(pair[0], theirs)
    assert [one.username for one in mentioned_in("@ada @otto @everywhere", subject)] == ["everywhere"]


def test_a_page_without_two_checkpoints_leads_to_the_comparison(ada: Client, pair: Pair) -> None:
    first, _second = pair
    for query in ("", f"a={first.run.uid}", query_of(first, first), f"{query_of(first)}&b=x", "a=%00&b=%00"):
        answer = ada.get(f"{reverse('comparison-comments')}?{query}")
        assert answer.status_code == 302 and answer["Location"].startswith(reverse("compare")), query
        answer = ada.post(f"{reverse('comparison-comment-add')}?{query}", {"text": "x"})
        assert answer.status_code == 404, query
    assert not Comment.objects.exists()


def test_three_sides_have_no_discussion(ada: Client, eve: Client, pair: Pair, crew_run: Run) -> None:
    third = crew_run.checkpoints.order_by("row")[2]
    assert "comments/" in text_of(ada, f"{reverse('compare')}?{query_of(*pair)}")
    more = f"&b={crew_run.uid}/{third.checkpoint_id}"
    assert reverse("comparison-comments") not in text_of(ada, f"{reverse('compare')}?{query_of(*pair)}{more}")


def test_both_checkpoints_are_protected_and_both_locations_refresh(pair: Pair, theirs: Checkpoint) -> None:
    first, _second = pair
    before = [one.revision for one in Location.objects.order_by("pk")]
    annotations.write(about_comparison(first, theirs), None, "Compare these.")
    assert [one.revision for one in Location.objects.order_by("pk")] == [one + 1 for one in before]
    for row in (first, theirs):
        assert commented_ids(row.location) == {("", row.checkpoint_id)}
    plan = plan_prune(first.location, PruneRules(days=0))
    assert first not in plan.rows and plan.protected[Protected.ANNOTATED] == 1


def test_it_waits_for_both_checkpoints(ada: Client, pair: Pair) -> None:
    ada.post(adding(*pair), {"text": "Hello."})
    comment = Comment.objects.get()
    Checkpoint.objects.filter(pk=pair[1].pk).delete()
    assert ada.get(reverse("comment", args=[comment.pk])).status_code == 404
    assert annotations.subject_of(comment) is None and Comment.objects.exists()


def test_the_act_is_recorded(ada: Client, pair: Pair, settings: object) -> None:
    setattr(settings, "AUDIT", True)  # noqa: B010
    ada.post(adding(*pair), {"text": "Hello."})
    entry = AuditEntry.objects.get(action="added", kind="comparison")
    assert set(entry.key.split()) == {str(one.pk) for one in pair} and "Hello" not in entry.detail
    ada.get(address_of(*pair))
    assert AuditEntry.objects.filter(action="opened", kind="comparison", key=entry.key).exists()


def test_the_terminal_lists_and_adds_them(terminal: Terminal, pair: Pair) -> None:
    targets = [f"{one.location.path}#{one.checkpoint_id}" for one in pair]
    (first,) = terminal.document("comments", *targets, "--add", "Better?")["discussions"]
    assert {first["checkpoint"], first["compared_with"]} == {one.checkpoint_id for one in pair}
    terminal.document("comments", *targets[::-1], "--add", "Yes.", "--reply-to", str(first["id"]))
    (found,) = terminal.document("comments", *targets)["discussions"]
    assert [one["text"] for one in found["replies"]] == ["Yes."]
    assert terminal.document("comments", targets[0])["discussions"] == []
    assert "same" in terminal.refused("comments", targets[0], targets[0])["error"]
    assert "--run" in terminal.refused("comments", *targets, "--run")["error"]


def test_a_program_writes_on_what_its_person_sees_and_nothing_else(pair: Pair, theirs: Checkpoint) -> None:
    first, second = pair
    client_of("paul", first.location, Level.OPERATOR)
    program = program_of(account_named("paul"), Level.OPERATOR)

    def sent(*checkpoints: Checkpoint, **more: str) -> Any:
        names = (f"{one.location.uid}#{one.checkpoint_id}" for one in checkpoints)
        body = {**dict(zip(("checkpoint", "other"), names, strict=False)), **more}
        return program.post("/api/commands/comments", json.dumps(body), content_type="application/json")

    answer = sent(first, second, add="Better?")
    assert answer.status_code == 200 and answer.json()["discussions"][0]["by"] == "paul"
    assert len(sent(second, first).json()["discussions"]) == 1 and not sent(first).json()["discussions"]
    for order in ((first, theirs), (theirs, first)):
        for more in ({}, {"add": "x"}):
            assert "error" in sent(*order, **more).json()
    assert Comment.objects.count() == 1
