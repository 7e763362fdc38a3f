"""Names, stars, labels and notes: what is stored, and that it survives pruning and a new import."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.imported import imported_location
from tests.terminal import Terminal
from viewer.host.locations.adding import remove_location
from viewer.host.locations.importing import import_location, redact_stored
from viewer.models import Annotation, Location, Project, Run
from viewer.records.annotations import AnnotatedObject, annotate, annotation_of, versions_of


def test_an_annotation_that_becomes_empty_is_deleted(crew_run: Run) -> None:
    annotate(
        AnnotatedObject(crew_run), None, name=" The  one ", labels=["final, tea", "tea"], is_starred=True
    )
    found = annotation_of(AnnotatedObject(crew_run))
    assert (found.name, found.labels, found.is_starred) == ("The one", ["final", "tea"], True)
    annotate(AnnotatedObject(crew_run), None, name="", labels=[], is_starred=False)
    assert not Annotation.objects.exists()


def test_secrets_in_a_note_are_redacted(crew_run: Run) -> None:
    secret = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz0123"
    found = annotate(AnnotatedObject(crew_run), None, note=f"The key was api_key={secret}.")
    assert secret not in found.note and "redacted" in found.note


def test_annotations_survive_pruning_and_removing_the_location(crew_location: Location) -> None:
    run = crew_location.runs.get()
    checkpoint = run.checkpoints.order_by("row").last()
    assert checkpoint
    annotate(AnnotatedObject(run), None, name="The one")
    annotate(AnnotatedObject(run, checkpoint_id=checkpoint.checkpoint_id), None, note="Best **draft**.")
    path = Path(crew_location.path)
    remove_location(crew_location)
    again = imported_location(path)
    (Path(path) / checkpoint.source_key).unlink()
    import_location(again)
    run = again.runs.get()
    assert annotation_of(AnnotatedObject(run)).name == "The one"
    assert (
        annotation_of(AnnotatedObject(run, checkpoint_id=checkpoint.checkpoint_id)).note == "Best **draft**."
    )


def test_the_form_saves_and_the_pages_show_it(runner: Client, crew_run: Run) -> None:
    head = crew_run.checkpoints.order_by("-row")[0]
    typed = {"name": "Shorter tone", "labels": "final", "note": "See **this** <script>x</script>"}
    assert (
        runner.post(reverse("annotation", args=[crew_run.uid]), typed | {"starred": "1"}).status_code == 302
    )
    branch = f"{reverse('annotation', args=[crew_run.uid])}?branch={head.branch}"
    runner.post(branch, {"name": "Branch name", "note": "On the branch"})
    checkpoint = f"{reverse('annotation', args=[crew_run.uid])}?at={head.checkpoint_id}"
    runner.post(checkpoint, {"name": "Checkpoint name"})
    page = runner.get(crew_run.get_absolute_url()).content.decode()
    for text in ("Shorter tone", "<strong>this</strong>", "Branch name", "Checkpoint name", "final"):
        assert text in page
    assert "<script>x" not in page
    listed = runner.get("/", {"only": "starred", "label": "final", "q": "shorter"}).content.decode()
    assert "Shorter tone" in listed
    assert 'type="hidden" name="label" value="final"' in listed, "A search keeps the label."
    assert "No run matches" in runner.get("/", {"label": "other"}).content.decode()


@pytest.mark.parametrize("query", ["?branch=nowhere", "?at=nothing"])
def test_only_what_exists_is_annotated(runner: Client, crew_run: Run, query: str) -> None:
    address = reverse("annotation", args=[crew_run.uid]) + query
    assert runner.post(address, {"name": "x"}).status_code == 404


def test_the_star_of_a_run_is_switched(runner: Client, crew_run: Run) -> None:
    address = reverse("annotation-star", args=[crew_run.uid])
    assert 'aria-pressed="true"' in runner.post(address).content.decode()
    assert 'aria-pressed="false"' in runner.post(address).content.decode()


def test_read_only_users_may_not_annotate(reader: Client, crew_run: Run) -> None:
    assert reader.post(reverse("annotation", args=[crew_run.uid]), {"name": "x"}).status_code == 403
    assert reader.post(reverse("annotation-star", args=[crew_run.uid])).status_code == 403


def test_the_terminal_annotates(
    crew_location: Location, terminal: Terminal, imported: Callable[[str], Location]
) -> None:
    row = crew_location.checkpoints.all()[0]
    target = f"{crew_location.path}#{row.checkpoint_id}"
    document = terminal.document("note", target, "--name", "Best", "--labels", "a,b", "--star")
    assert document == {
        **{"run": row.run.key, "branch": None, "checkpoint": row.checkpoint_id, "name": "Best"},
        **{"starred": True, "labels": ["a", "b"], "note": ""},
    }
    assert "No name, star, label or note." in terminal.text("note", target, "--branch")


def test_two_people_who_edit_one_note_lose_nothing(runner: Client, crew_run: Run) -> None:
    address = reverse("annotation", args=[crew_run.uid])

    def seen() -> str:
        return str(re.findall(r'name="seen" value="([^"]*)"', runner.get(address).content.decode())[0])

    both = seen()
    runner.post(address, {"name": "first", "note": "What the first wrote", "seen": both})
    refused = runner.post(address, {"name": "second", "note": "What the second wrote", "seen": both})
    page = refused.content.decode()
    assert refused.status_code == 409
    assert "What the first wrote" in page and "What the second wrote</textarea>" in page
    assert annotation_of(AnnotatedObject(crew_run)).note == "What the first wrote"
    again = re.findall(r'name="seen" value="([^"]*)"', page)[0]
    runner.post(address, {"name": "second", "note": "What the second wrote", "seen": again})
    assert annotation_of(AnnotatedObject(crew_run)).note == "What the second wrote"
    history = runner.get(address).content.decode()
    assert "Earlier texts" in history and "What the first wrote" in history
    (version,) = versions_of(AnnotatedObject(crew_run))
    restored = runner.get(address, {"version": version.pk}).content.decode()
    assert "What the first wrote</textarea>" in restored


def test_a_deleted_note_stays_in_the_history_and_a_star_makes_none(runner: Client, crew_run: Run) -> None:
    subject = AnnotatedObject(crew_run)
    annotate(subject, None, note="Kept")
    annotate(subject, None, is_starred=True)
    assert not versions_of(subject)
    annotate(subject, None, note="", is_starred=False)
    assert [one.note for one in versions_of(subject)] == ["Kept"]


def test_a_former_note_loses_a_secret_that_is_known_later(crew_run: Run, tmp_path: Path) -> None:
    subject = AnnotatedObject(crew_run)
    annotate(subject, None, note="the word is horse-battery-staple-9")
    annotate(subject, None, note="gone")
    file = tmp_path / "project.env"
    file.write_text("API_KEY=horse-battery-staple-9\n")
    location = crew_run.location
    location.project = Project.objects.create(
        folder="/p", interpreter="/x", environment_file=str(file), confirmed_at=timezone.now()
    )
    location.save()
    redact_stored(location)
    assert "horse" not in versions_of(subject)[0].note
