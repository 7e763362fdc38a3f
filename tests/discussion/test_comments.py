"""Comments: who writes and reads them, mentions, and that they survive what deletes rows."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.clients import CompactClient
from tests.imported import imported_location
from tests.terminal import Terminal
from tests.views.forking import CREW, create_location, stored
from viewer.host.locations.adding import remove_location
from viewer.host.locations.pruning import Protected, plan_prune
from viewer.host_requests import PruneRules
from viewer.models import AuditEntry, Comment, Job, Level, Location, Question, Role, Run
from viewer.records import annotations
from viewer.records.accounts import teammate
from viewer.records.annotations import MAX_COMMENT, Discussed, NotWritten, comments_in, mentioned_in
from viewer.records.permissions import account_named

SECRET = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz0123"


def client_of(name: str, location: Location, level: Level) -> Client:
    """Return a client of somebody who has this role on this location alone."""
    user = account_named(name)
    Role.objects.create(user=user, location=location, level=level)
    client = CompactClient()
    client.force_login(user)
    return client


@pytest.fixture
def ada(crew_location: Location) -> Client:
    return client_of("ada", crew_location, Level.OPERATOR)


@pytest.fixture
def eve(crew_location: Location) -> Client:
    return client_of("eve", crew_location, Level.OPERATOR)


@pytest.fixture
def page(crew_run: Run) -> str:
    return reverse("comments", args=[crew_run.uid])


def text_of(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_people_discuss_a_run_and_its_checkpoints(ada: Client, eve: Client, page: str, crew_run: Run) -> None:
    head = crew_run.checkpoints.order_by("-row")[0]
    ada.post(f"{page}add/", {"text": "Is **this** right? @eve."})
    first = Comment.objects.get()
    eve.post(f"{page}add/", {"text": "Yes.", "reply_to": first.pk})
    eve.post(f"{page}add/?at={head.checkpoint_id}", {"text": "Too long."})
    shown = text_of(ada, page)
    assert "<strong>this</strong>" in shown and "Yes." in shown and "Too long." in shown
    assert "Mentions: eve" in " ".join(shown.split())
    assert "Yes." not in text_of(ada, f"{page}?at={head.checkpoint_id}")
    on_head = Comment.objects.get(text="Too long.")
    assert ada.get(reverse("comment", args=[on_head.pk]))["Location"].endswith(f"#comment-{on_head.pk}")
    assert "1 open discussion" in " ".join(
        text_of(ada, f"{crew_run.get_absolute_url()}?at={head.checkpoint_id}").split()
    )


def test_only_ones_own_comment_is_edited_and_deleted(ada: Client, eve: Client, page: str) -> None:
    ada.post(f"{page}add/", {"text": "Mine."})
    mine = Comment.objects.get()
    for name in ("comment-edit", "comment-delete"):
        assert eve.post(reverse(name, args=[mine.pk]), {"text": "Eve's."}).status_code == 404
    ada.post(reverse("comment-edit", args=[mine.pk]), {"text": "Better."})
    assert Comment.objects.get().text == "Better." and "edited" in text_of(eve, page)
    eve.post(f"{page}add/", {"text": "Why?", "reply_to": mine.pk})
    ada.post(reverse("comment-delete", args=[mine.pk]))
    assert "This comment was deleted." in text_of(eve, page) and "Why?" in text_of(eve, page)
    assert ada.post(reverse("comment-edit", args=[mine.pk]), {"text": "Back."}).status_code == 404
    eve.post(reverse("comment-delete", args=[Comment.objects.exclude(pk=mine.pk).get().pk]))
    assert not Comment.objects.exists(), "A deleted discussion without replies is gone."


def test_anybody_who_comments_resolves_a_discussion_and_reopens_it(
    ada: Client, eve: Client, page: str
) -> None:
    ada.post(f"{page}add/", {"text": "Open?"})
    address = reverse("comment-resolve", args=[Comment.objects.get().pk])
    eve.post(address, {"resolved": "1"})
    assert "Resolved by eve" in text_of(ada, page)
    ada.post(address, {"resolved": "1"})
    assert str(Comment.objects.get().resolved_by) == "eve", "The first one resolved it."
    ada.post(address)
    assert Comment.objects.get().resolved_at is None


def test_a_discussion_that_was_deleted_is_not_resolved(ada: Client, page: str, crew_run: Run) -> None:
    ada.post(f"{page}add/", {"text": "Is this right?"})
    comment = Comment.objects.get()
    Comment.objects.filter(pk=comment.pk).delete()
    annotations.resolve(comment, Discussed(crew_run.location, crew_run), None, is_resolved=True)
    assert not Comment.objects.exists()


def test_a_viewer_reads_and_writes_nothing(ada: Client, crew_location: Location, page: str) -> None:
    viewer = client_of("vera", crew_location, Level.VIEWER)
    ada.post(f"{page}add/", {"text": "Hello."})
    assert "Hello." in text_of(viewer, page) and "<textarea" not in text_of(viewer, page)
    comment = Comment.objects.get()
    assert viewer.post(f"{page}add/", {"text": "Me too."}).status_code == 403
    assert viewer.post(reverse("comment-resolve", args=[comment.pk]), {"resolved": "1"}).status_code == 403
    assert list(Comment.objects.all()) == [comment]


def test_comments_of_another_team_do_not_exist(ada: Client, page: str, tmp_path: Path) -> None:
    other = create_location(tmp_path / "other")
    theirs = stored(other, CREW)
    foreign = annotations.write(Discussed(other, theirs.run), None, "Hidden.")
    job = Job.objects.create(kind=Job.Kind.FORK, location=other, project=other.project, checkpoint=theirs)
    Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    for name in ("comment-edit", "comment-delete", "comment-resolve"):
        assert ada.post(reverse(name, args=[foreign.pk]), {"text": "x"}).status_code == 404
    assert ada.post(f"{page}add/", {"text": "x", "reply_to": foreign.pk}).status_code == 404
    assert ada.get(reverse("comment", args=[foreign.pk])).status_code == 404
    assert ada.get(reverse("question-comments", args=[job.pk, 1])).status_code == 404
    assert ada.post(reverse("question-comment-add", args=[job.pk, 1]), {"text": "x"}).status_code == 404
    assert Comment.objects.count() == 1


def test_a_question_is_discussed_by_those_who_may_see_both_locations_of_its_job(
    ada: Client, crew_run: Run, tmp_path: Path
) -> None:
    other = create_location(tmp_path / "other")
    theirs = stored(other, CREW)
    location = crew_run.location
    seen, unseen = (
        Job.objects.create(kind=Job.Kind.FORK, location=location, project=other.project, checkpoint=one)
        for one in (crew_run.checkpoints.first(), theirs)
    )
    for job in (seen, unseen):
        Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
        text = "Take @ada the first."
        annotations.write(annotations.about_question(job.questions.get()), None, text)
    address = reverse("question-comments", args=[seen.pk, 1])
    ada.post(f"{address}add/", {"text": "The second."})
    assert "The second." in text_of(ada, address)
    assert ada.get(reverse("question-comments", args=[unseen.pk, 1])).status_code == 404
    hidden = Comment.objects.get(question__job=unseen)
    assert ada.post(reverse("comment-resolve", args=[hidden.pk]), {"resolved": "1"}).status_code == 404
    assert not hidden.mentioned.exists()
    assert Comment.objects.filter(question__job=seen, mentioned__username="ada").exists()


def test_only_people_who_may_see_it_are_mentioned(ada: Client, crew_run: Run, tmp_path: Path) -> None:
    client_of("otto", create_location(tmp_path / "other"), Level.ADMIN)
    away = teammate("away", "run")
    away.is_active = False
    away.save()
    subject = Discussed(crew_run.location, crew_run)
    text = "@ada, @otto @away @nobody mail@ada.org (@ada) @" + "x" * 5000
    assert [one.username for one in mentioned_in(text, subject)] == ["ada"]
    for number in range(30):
        teammate(f"p{number}")
    assert len(mentioned_in(" ".join(f"@p{number}" for number in range(30)), subject)) == 20


@pytest.mark.parametrize("text", ["", " \r\n ", "\0", "x" * (MAX_COMMENT + 1)])
def test_empty_and_too_long_comments_are_refused(crew_run: Run, text: str) -> None:
    with pytest.raises(NotWritten):
        annotations.write(Discussed(crew_run.location, crew_run), None, text)


def test_a_refused_comment_stays_in_the_form(ada: Client, page: str, crew_run: Run) -> None:
    text = "y" * (MAX_COMMENT + 1)
    head = crew_run.checkpoints.order_by("-row")[0]
    for address in (f"{page}add/", f"{page}add/?at={head.checkpoint_id}"):
        refused = ada.post(address, {"text": text})
        assert refused.status_code == 422 and f">{text}</textarea>" in refused.content.decode()
        assert "at most 10000 characters" in refused.content.decode()
    ada.post(f"{page}add/", {"text": "Mine."})
    assert ada.post(f"{page}add/", {"text": " "}).status_code == 422
    edited = ada.post(reverse("comment-edit", args=[Comment.objects.get().pk]), {"text": text})
    assert edited.status_code == 422 and f">{text}</textarea>" in edited.content.decode()
    assert Comment.objects.get().text == "Mine."


def test_secrets_and_scripts_are_not_shown(ada: Client, page: str) -> None:
    text = f"api_key={SECRET} <script>alert(1)</script> [x](javascript:alert(1)) ![y](http://e.org/y.png)"
    ada.post(f"{page}add/", {"text": text})
    shown = text_of(ada, page)
    assert SECRET not in shown and SECRET not in Comment.objects.get().text
    assert "<script>alert" not in shown and "<img" not in shown and 'href="javascript' not in shown


def test_comments_survive_a_new_import_and_protect_from_pruning(crew_location: Location) -> None:
    run = crew_location.runs.get()
    first = run.checkpoints.order_by("row")[0]
    subject = Discussed(crew_location, run, first.checkpoint_id)
    assert first in plan_prune(crew_location, PruneRules(days=0)).rows
    annotations.write(subject, None, "Here it began.")
    plan = plan_prune(crew_location, PruneRules(days=0))
    assert first not in plan.rows and plan.protected[Protected.ANNOTATED] == 1
    path = Path(crew_location.path)
    remove_location(crew_location)
    again = imported_location(path).runs.get()
    assert [one.text for one in comments_in(again)] == ["Here it began."]


def test_open_pages_show_it_and_the_act_is_recorded(
    ada: Client, crew_run: Run, page: str, settings: object
) -> None:
    setattr(settings, "AUDIT", True)  # noqa: B010
    before = Location.objects.get().revision
    ada.post(f"{page}add/", {"text": "Hello."})
    assert Location.objects.get().revision == before + 1
    entry = AuditEntry.objects.get(action="added", kind="run")
    assert (entry.actor, entry.key, entry.detail) == (
        "ada",
        str(crew_run.uid),
        f"comment {Comment.objects.get().pk} on the run",
    )


def test_one_person_sees_no_comments(crew_run: Run) -> None:
    client = CompactClient()
    client.force_login(teammate("ada", "run"))
    assert "/comments/" not in text_of(client, crew_run.get_absolute_url())
    teammate("eve")
    assert "/comments/" in text_of(client, crew_run.get_absolute_url())


def test_the_terminal_lists_and_adds_comments(terminal: Terminal, crew_run: Run) -> None:
    target = f"{crew_run.location.path}#{crew_run.checkpoints.order_by('row')[0].checkpoint_id}"
    (first,) = terminal.document("comments", target, "--add", "Is **this** right?")["discussions"]
    terminal.document("comments", target, "--run", "--add", "On the run.")
    terminal.document("comments", target, "--add", "Yes.", "--reply-to", str(first["id"]))
    (found,) = terminal.document("comments", target)["discussions"]
    assert (found["by"], found["replies"][0]["text"], found["resolved_at"]) == (None, "Yes.", None)
    assert len(terminal.document("comments", target, "--run")["discussions"]) == 2
