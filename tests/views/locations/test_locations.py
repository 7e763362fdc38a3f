"""The list of locations, the page of one, adding and refreshing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from tests.real_stores import STORES
from viewer.models import Location, Problem

Imported = Callable[[str], Location]


def test_an_empty_list_shows_the_next_step(runner: Client) -> None:
    page = runner.get(reverse("locations")).content.decode()
    assert "No locations yet" in page
    assert 'name="path"' in page


def test_the_list_counts_runs_checkpoints_and_problems(runner: Client, crew_location: Location) -> None:
    page = runner.get(reverse("locations")).content.decode()
    row = page[page.index("<tbody>") : page.index("</tbody>")]
    assert "1.15.30/json" in row
    assert 'data-label="run">1</td>' in row
    assert 'data-label="checkpoints">6</td>' in row
    assert 'data-label="problems">0</td>' in row


def test_the_list_needs_no_more_queries_for_more_locations(
    runner: Client, imported: Imported, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    imported("1.15.30/json")
    runner.get(reverse("locations"))
    with django_assert_num_queries(7):
        runner.get(reverse("locations"))
    imported("1.15.30/flow")
    imported("1.14.7/flow")
    with django_assert_num_queries(7):
        runner.get(reverse("locations"))


def test_a_location_shows_its_runs(runner: Client, crew_location: Location) -> None:
    page = runner.get(crew_location.get_absolute_url()).content.decode()
    assert crew_location.runs.get().get_absolute_url() in page
    assert "research" in page
    assert reverse("project", args=[crew_location.uid]) in page


def test_a_location_lists_its_problems_with_reasons(runner: Client, crew_location: Location) -> None:
    (Path(crew_location.path) / "notes.json").write_text('{"notes": "<b>mine</b>"}')
    (Path(crew_location.path) / "<script>.json").write_text("{}")
    answer = runner.post(reverse("location-refresh", args=[crew_location.uid]), follow=True)
    page = answer.content.decode()
    assert "2 problems" in page
    assert "notes.json" in page
    assert "&lt;script&gt;.json" in page and "<script>.json" not in page
    assert "research" in page


def test_broken_files_are_listed_before_foreign_files(runner: Client, crew_location: Location) -> None:
    kind = Problem.Kind
    kinds = [(f"a{number:03}.json", kind.FOREIGN) for number in range(250)]
    kinds += [("m.json", kind.WRITING), ("z.json", kind.BROKEN)]
    Problem.objects.bulk_create(
        Problem(location=crew_location, source_key=key, kind=one, reason="So it is.") for key, one in kinds
    )
    page = runner.get(crew_location.get_absolute_url()).content.decode()
    assert "252 problems" in page and "The first 200 are shown." in page
    assert page.index("m.json") < page.index("z.json") < page.index("a000.json")


def test_an_empty_location_explains_how_checkpoints_are_written(runner: Client, tmp_path: Path) -> None:
    location = Location.objects.create(path=str(tmp_path), store_kind=Location.StoreKind.JSON)
    assert "No checkpoints yet" in runner.get(location.get_absolute_url()).content.decode()


def test_an_open_page_refreshes_only_its_contents(runner: Client, crew_location: Location) -> None:
    address = crew_location.get_absolute_url()
    part = runner.get(
        address, headers={"HX-Request": "true", "HX-Target": "location-contents"}
    ).content.decode()
    assert part.strip().startswith('<div id="location-contents"')
    assert part.strip() in runner.get(address).content.decode()


def test_adding_a_location_imports_it(runner: Client, tmp_path: Path) -> None:
    store = shutil.copytree(STORES / "1.15.30/json", tmp_path / "store")
    answer = runner.post(reverse("location-add"), {"path": str(store)})
    location = Location.objects.get(path=str(store))
    assert (answer.status_code, answer["Location"]) == (302, location.get_absolute_url())
    assert location.checkpoints.count() == 6


def test_adding_a_location_again_opens_the_existing_one(runner: Client, crew_location: Location) -> None:
    runner.post(reverse("location-add"), {"path": f"{crew_location.path}/../json/"})
    assert Location.objects.count() == 1


@pytest.mark.parametrize("path", ["/etc", "/nowhere/at/all", "../../etc", "", "/proc/self\0", "~root/.."])
def test_a_path_that_is_not_allowed_is_refused_with_a_reason(runner: Client, path: str) -> None:
    answer = runner.post(reverse("location-add"), {"path": path})
    assert answer.status_code == 422
    assert 'class="error"' in answer.content.decode()
    assert "autofocus" in answer.content.decode()
    assert not Location.objects.exists()


def test_a_link_out_of_the_allowed_roots_is_refused(
    runner: Client, settings: Settings, tmp_path: Path
) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "link").symlink_to(outside)
    settings.CHECKPOINT_ROOTS = [allowed]
    for path in (outside, allowed / "link", allowed / ".." / "allowed-not"):
        assert runner.post(reverse("location-add"), {"path": str(path)}).status_code == 422
    assert runner.post(reverse("location-add"), {"path": str(allowed)}).status_code == 302


def test_refreshing_imports_new_checkpoints_and_reports_them(runner: Client, crew_location: Location) -> None:
    fork = Path(crew_location.path) / "exp-a"
    newest = max(fork.iterdir())
    text = newest.read_text()
    newest.unlink()
    address = reverse("location-refresh", args=[crew_location.uid])
    assert "Up to date." in runner.post(address, follow=True).content.decode()
    (fork / newest.name.replace("b537f2f3", "b537f2f4")).write_text(text)
    assert "1 new checkpoint." in runner.post(address, follow=True).content.decode()


def test_a_missing_location_keeps_its_checkpoints_and_shows_an_error(
    runner: Client, crew_location: Location
) -> None:
    shutil.rmtree(crew_location.path)
    page = runner.post(reverse("location-refresh", args=[crew_location.uid]), follow=True).content.decode()
    assert "This location cannot be read" in page
    assert "research" in page


def test_a_replaced_folder_can_be_accepted_by_users_who_can_run(
    runner: Client, crew_location: Location
) -> None:
    path = Path(crew_location.path)
    path.rename(path.with_name("moved"))
    shutil.copytree(STORES / "1.15.30/flow", path)
    page = runner.post(reverse("location-refresh", args=[crew_location.uid]), follow=True).content.decode()
    assert "replaced after it was added" in page and "Accept the replacement" in page
    crew_location.refresh_from_db()
    address = reverse("location-replaced", args=[crew_location.uid])
    page = runner.post(address, {"identity": "1:2:3"}, follow=True).content.decode()
    assert "Nothing was accepted" in page and "Accept the replacement" in page
    page = runner.post(address, {"identity": crew_location.replaced_by}, follow=True).content.decode()
    assert "Accept the replacement" not in page and "could not be read" not in page
    assert crew_location.checkpoints.filter(state="present").count() == 2
    assert crew_location.checkpoints.filter(state="pruned").count() == 6


def test_read_only_users_cannot_accept_a_replaced_folder(reader: Client, crew_location: Location) -> None:
    path = Path(crew_location.path)
    path.rename(path.with_name("moved"))
    path.mkdir()
    page = reader.post(reverse("location-refresh", args=[crew_location.uid]), follow=True).content.decode()
    assert "replaced after it was added" in page and "Accept the replacement" not in page


def test_a_get_request_does_not_refresh(runner: Client, crew_location: Location) -> None:
    assert runner.get(reverse("location-refresh", args=[crew_location.uid])).status_code == 405


def test_an_unknown_location_is_not_found(runner: Client) -> None:
    answer = runner.get(reverse("location", args=[uuid4()]))
    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()


@pytest.mark.parametrize("path", [".checkpoints", "newsroom/.checkpoints", "./here", "a b"])
def test_a_relative_path_asks_for_an_absolute_one(runner: Client, path: str) -> None:
    page = runner.post(reverse("location-add"), {"path": path})
    assert page.status_code == 422 and "Enter an absolute path." in page.content.decode()
    assert not Location.objects.exists()
