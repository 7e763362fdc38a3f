"""The list of locations, the page of one, adding and refreshing."""

import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from tests.real_stores import STORES
from viewer.models import Location, Pool, Problem

Imported = Callable[[str], Location]


def refusal(client: Client, path: object) -> str:
    """The error that the form shows after this path was sent."""
    assert client.post(reverse("location-add"), {"path": str(path)})["Location"].endswith("#add")
    page = client.get(reverse("locations")).content.decode()
    return unescape(re.findall(r'<p class="error"[^>]*>(.*?)</p>', page, re.DOTALL)[0])


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
    with django_assert_num_queries(11):
        runner.get(reverse("locations"))
    imported("1.15.30/flow")
    imported("1.14.7/flow")
    with django_assert_num_queries(11):
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
    assert answer["Location"] == f"{reverse('locations')}#add"
    page = runner.get(reverse("locations")).content.decode()
    assert 'class="error"' in page and "autofocus" in page
    assert not Location.objects.exists()
    # A reload sends nothing again, and says nothing again.
    assert 'class="error"' not in runner.get(reverse("locations")).content.decode()


def test_a_link_out_of_the_allowed_roots_is_refused(
    runner: Client, settings: Settings, tmp_path: Path
) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "link").symlink_to(outside)
    settings.CHECKPOINT_ROOTS = [allowed]
    for path in (outside, allowed / "link", allowed / ".." / "allowed-not"):
        assert "is outside the folders" in refusal(runner, path)
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
    assert refusal(runner, path) == "Enter an absolute path."
    assert not Location.objects.exists()


def test_each_wrong_path_has_its_own_sentence(runner: Client, settings: Settings, tmp_path: Path) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    (tmp_path / "checkpoints").mkdir()
    assert "knows no home folder for ~nobody-here" in refusal(runner, "~nobody-here/x")
    assert f"{Path.home().resolve()} is outside the folders" in refusal(runner, "~")
    assert f"Did you mean {tmp_path}/checkpoints?" in refusal(runner, tmp_path / "checkpoint")
    settings.CHECKPOINT_ROOTS = [Path("/")]
    assert "data folder" in refusal(runner, settings.DATA_DIR)


def test_a_location_around_another_or_around_our_own_data_says_so(
    runner: Client, settings: Settings, tmp_path: Path
) -> None:
    inner = shutil.copytree(STORES / "1.15.30/json", tmp_path / "project" / "inner")
    settings.DATA_DIR = tmp_path / "project" / "data"
    settings.DATA_DIR.mkdir()
    runner.post(reverse("location-add"), {"path": str(inner)})
    page = runner.post(reverse("location-add"), {"path": str(inner.parent)}, follow=True).content.decode()
    assert f"It contains {inner}" in page and f"is skipped: {settings.DATA_DIR}" in page
    page = runner.post(reverse("location-add"), {"path": str(inner / "main")}, follow=True).content.decode()
    assert f"It is inside {inner}" in page


def test_an_empty_install_says_what_to_do_and_adding_stays_on_home(runner: Client, tmp_path: Path) -> None:
    store = shutil.copytree(STORES / "1.15.30/json", tmp_path / "store")
    page = runner.get("/").content.decode()
    assert "CheckpointConfig(" in page and "SqliteSaver" in page and "make demo" in page
    assert reverse("locations-found") in page
    added = runner.post(reverse("location-add"), {"path": str(store), "from": "home"}, follow=True)
    assert added.redirect_chain == [("/", 302)] and f"Added {store}." in added.content.decode()
    runner.post(reverse("location-add"), {"path": "relative", "from": "home"})


def test_an_empty_folder_shows_the_lines_that_write_to_it(runner: Client, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    page = runner.post(
        reverse("location-add"), {"path": str(tmp_path / "empty")}, follow=True
    ).content.decode()
    assert f'CheckpointConfig(location="{tmp_path}/empty"' in page and "Prune" not in page


def test_found_stores_are_added_with_one_press(runner: Client, settings: Settings, tmp_path: Path) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    store = shutil.copytree(STORES / "1.15.30/json", tmp_path / "a" / ".checkpoints")
    page = runner.get(reverse("locations-found")).content.decode()
    assert f'name="path" value="{store}"' in page and "6 checkpoints" in page
    runner.post(reverse("location-add"), {"path": str(store)})
    assert "No other store" in runner.get(reverse("locations-found")).content.decode()


def test_a_known_store_outside_the_allowed_folders_says_how_to_allow_it(
    runner: Client, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path / "allowed"]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".deepagents").mkdir()
    (tmp_path / ".deepagents/sessions.db").write_text("sessions")
    page = runner.get(reverse("locations-found")).content.decode()
    assert "Deep Agents sessions" in page and 'type="submit"' not in page
    assert f"CHECKPOINT_ROOTS={tmp_path}/allowed:{tmp_path}/.deepagents" in page


def test_pickled_threads_show_how_to_store_them_in_a_database(
    runner: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    (tmp_path / "agent/.langgraph_api").mkdir(parents=True)
    (tmp_path / "agent/.langgraph_api/.langgraph_checkpoint.1.pckl").write_bytes(b"cos\nsystem\n.")
    page = runner.get(reverse("locations-found")).content.decode()
    assert "./checkpointer.py:create_checkpointer" in page and "never loads" in page


@pytest.mark.parametrize("key", ["x", "9" * 30, "9" * 5000, "-1", "\0"])
def test_a_pool_that_does_not_exist_changes_nothing(
    runner: Client, crew_location: Location, key: str
) -> None:
    pool = Pool.objects.create(name="shared")
    Location.objects.update(pool=pool)
    answer = runner.post(reverse("location-pool", args=[crew_location.uid]), {"pool": key})
    assert answer.status_code == 404
    assert Location.objects.get().pool == pool


@pytest.mark.parametrize("key", ["x", "9" * 30, "9" * 5000])
def test_a_host_that_does_not_exist_is_ignored(runner: Client, crew_location: Location, key: str) -> None:
    assert runner.get("/locations/", {"host": key}).status_code == 200


def test_the_field_completes_paths(runner: Client, settings: Settings, tmp_path: Path) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    (tmp_path / "alpha").mkdir()
    address = reverse("location-paths")
    page = runner.get(address, {"path": f"{tmp_path}/al"}).content.decode()
    assert f'<option value="{tmp_path}/alpha/">' in page


@pytest.mark.parametrize("name", ["location-paths", "locations-found"])
def test_who_may_not_run_is_shown_nothing_of_the_disk(reader: Client, name: str) -> None:
    assert reader.get(reverse(name)).status_code == 403


def test_a_moved_location_is_found_again_and_the_time_of_its_last_sync_stays(
    runner: Client, crew_location: Location
) -> None:
    path = Path(crew_location.path)
    synced = Location.objects.get(pk=crew_location.pk).imported_at
    links = [row.get_absolute_url() for row in crew_location.checkpoints.all()]
    path.rename(path.with_name("elsewhere"))
    page = runner.post(reverse("location-refresh", args=[crew_location.uid]), follow=True).content.decode()
    assert "Change path" in page
    assert Location.objects.get(pk=crew_location.pk).imported_at == synced
    address = reverse("location-path", args=[crew_location.uid])
    page = runner.post(address, {"path": "/nowhere at all"}, follow=True).content.decode()
    assert 'value="/nowhere at all"' in page and "notice-bad" in page
    page = runner.post(address, {"path": str(path.with_name("elsewhere"))}, follow=True).content.decode()
    assert f"This location is now at {path.with_name('elsewhere')}." in page and "cannot be read" not in page
    assert [row.get_absolute_url() for row in Location.objects.get().checkpoints.all()] == links
    # Another folder at the old path is another location.
    path.mkdir()
    assert runner.post(reverse("location-add"), {"path": str(path)}).status_code == 302
    assert Location.objects.count() == 2
