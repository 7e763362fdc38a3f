"""The search page: its address is the whole search, and its results link to the tab with the text."""

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.search.indexed import index_all
from viewer.models import Checkpoint, Job, Location, Run, SavedSearch, SearchedLocation, SearchEntry

SEARCH = "/search/"


def page(client: Client, query: str) -> str:
    answer = client.get(f"{SEARCH}?{query}")
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_a_match_is_marked_and_links_to_its_tab(reader: Client, crew_location: Location) -> None:
    index_all()
    entry = SearchEntry.objects.filter(kind="output").latest("pk")
    word = entry.text.split()[0]
    shown = page(reader, f"q={word}&kind=output")
    assert f"<mark>{word}</mark>" in shown
    assert f'href="{entry.checkpoint.get_absolute_url()}&tab=tasks"' in shown
    assert reader.get(f"{entry.checkpoint.get_absolute_url()}&{entry.query_string}").status_code == 200


def test_texts_are_escaped(reader: Client, crew_location: Location) -> None:
    index_all()
    entry = SearchEntry.objects.latest("pk")
    entry.pk, entry.digest, entry.text = None, b"x", "harmless <script>alert(1)</script> text"
    entry.save(force_insert=True)
    answer = reader.get(f"{SEARCH}?q=harmless+script").content.decode()
    assert "<script>alert" not in answer and "&lt;<mark>script</mark>&gt;" in answer


def test_a_repeated_text_has_the_number_of_its_checkpoints(reader: Client, crew_location: Location) -> None:
    index_all()
    assert "in 5 more checkpoints" in page(reader, "q=expert&kind=prompt")


def test_threads_are_found_by_node(reader: Client, threads: Callable[[str], Location]) -> None:
    threads("lg12")
    index_all()
    entry = SearchEntry.objects.filter(kind="output").exclude(unit="").latest("pk")
    word = entry.text.split(":")[0]
    assert entry.checkpoint.get_absolute_url() in page(reader, f"q={word}&unit={quote(entry.unit)}")
    assert "Nothing found" in page(reader, f"q={word}&unit=nowhere")


def test_the_ends_of_runs_are_found(reader: Client, threads: Callable[[str], Location]) -> None:
    ends = threads("lg12").checkpoints.filter(trigger__endswith="_ended")
    index_all()
    shown = page(reader, "status=completed")
    assert 0 < ends.count() == shown.count('class="search-result"')
    assert ends[0].get_absolute_url() in shown


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("entity=crew", 6),
        ("entity=flow", 0),
        ("branch=main", None),
        ("trigger=task_completed", None),
        ("tokens=0", 6),
        ("tokens=999999999", 0),
        ("cost=999", 0),
        ("since=2020-01-01", 6),
        ("until=2020-01-01", 0),
        ("status=failed", 0),
        ("status=waiting", 0),
        ("status=completed", 0),
        ("status=pruned", 0),
        ("edited=1", 0),
        ("unattended=1", 0),
        ("version=0.0", 0),
        ("location=nowhere", 0),
        ("agent=Writer", None),
        ("agent=Nobody", 0),
    ],
)
def test_each_filter_narrows_the_checkpoints(
    reader: Client, crew_location: Location, query: str, count: int | None
) -> None:
    index_all()
    shown = page(reader, query)
    found = shown.count('class="search-result"')
    assert found == count if count is not None else 0 < found <= 6
    # The same filters apply to texts.
    assert ('class="search-result"' in page(reader, f"q=write&{query}")) == bool(found)


@pytest.mark.parametrize(
    "query",
    [
        *("since=x", "since=9999-99-99", "tokens=-1", "tokens=1e9", "cost=nan", "kind='", "before=x"),
        *(
            "before=" + "9" * 40,
            "location=" + "a" * 5000,
            "q=" + "a" * 3000,
            "q=%00",
            "agent=%00",
            "status=%F0",
        ),
    ],
)
def test_odd_values_are_no_errors(reader: Client, crew_location: Location, query: str) -> None:
    page(reader, query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("since=yesterday", "The first day must be a day such as 2026-01-31, not 'yesterday'."),
        ("until=2026-02-30", "The last day must be a day"),
        ("tokens=-1", "The number of tokens must be a whole number of 0 or more"),
        ("cost=nan", "The cost must be a number of 0 or more"),
        ("status=odd", "The status must be one of failed, waiting"),
    ],
)
def test_a_filter_that_is_not_valid_finds_nothing_and_says_why(
    reader: Client, crew_location: Location, query: str, message: str
) -> None:
    for address in (query, f"q=write&{query}"):
        shown = page(reader, address)
        assert message in shown and 'class="search-result"' not in shown


def test_a_failure_that_nobody_continued_is_found(reader: Client, crew_run: Run) -> None:
    last = crew_run.checkpoints.filter(children=None).latest("row")
    Checkpoint.objects.filter(pk=last.pk).update(trigger="task_failed")
    assert page(reader, "unattended=1").count('class="search-result"') == 1
    Job.objects.create(kind=Job.Kind.RESUME, location=crew_run.location, checkpoint=last)
    assert "Nothing found" in page(reader, "unattended=1")
    assert page(reader, "status=failed").count('class="search-result"') == 1


def test_the_first_checkpoint_after_edits_is_found(reader: Client, crew_run: Run) -> None:
    child = crew_run.checkpoints.exclude(parent=None).latest("row")
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=crew_run.location,
        checkpoint=child.parent,
        request={"branch": child.branch, "inputs": {}},
    )
    assert "Nothing found" in page(reader, "edited=1")
    job.request = {"branch": child.branch, "inputs": {"topic": "tea"}}
    job.save()
    assert page(reader, "edited=1").count('class="search-result"') >= 1


def test_the_address_of_a_form_has_no_empty_fields(reader: Client, db: None) -> None:
    answer = reader.get(f"{SEARCH}?q=tea&kind=&location=")
    assert (answer.status_code, answer["Location"]) == (302, f"{SEARCH}?q=tea")


def test_a_partial_request_returns_only_the_results_and_their_address(reader: Client, db: None) -> None:
    answer = reader.get(
        f"{SEARCH}?q=tea&kind=", headers={"HX-Request": "true", "HX-Target": "search-results"}
    )
    assert answer["HX-Replace-Url"] == f"{SEARCH}?q=tea"
    assert answer.content.startswith(b"<section") and b"<html" not in answer.content


@pytest.mark.parametrize("query", ["entity=crew", "q=write"])
def test_pages_follow_each_other(
    reader: Client, crew_location: Location, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    index_all()
    monkeypatch.setattr("viewer.records.search.search.__defaults__", (None, 2))
    seen, address = list[str](), query
    while address:
        shown = page(reader, address)
        seen += re.findall(r'class="search-link"><a href="([^"]+)"', shown)
        older = re.search(r'href="\?([^"]+)">Older results', shown)
        address = older[1] if older else ""
    assert len(seen) > 3
    monkeypatch.setattr("viewer.records.search.search.__defaults__", (None, 1000))
    assert seen == re.findall(r'class="search-link"><a href="([^"]+)"', page(reader, query))


def test_nothing_is_found_while_a_secret_may_be_indexed(reader: Client, crew_location: Location) -> None:
    index_all()
    assert "<mark>" in page(reader, "q=expert")
    SearchedLocation.objects.update(secrets_digest="former")
    assert "<mark>" not in page(reader, "q=expert")


def test_a_search_that_takes_too_long_shows_an_error(
    reader: Client, crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_all()
    if connection.vendor == "sqlite":
        monkeypatch.setattr("viewer.records.search.INSTRUCTIONS", 1)
    else:
        # A server measures milliseconds.
        entry = SearchEntry.objects.latest("pk")
        for number in range(200):
            entry.pk, entry.digest, entry.text = None, f"{number}".encode(), "expert advice " * 2000
            entry.save(force_insert=True)
    monkeypatch.setattr("viewer.records.search.MAX_SECONDS", -1)
    assert "This search took too long." in page(reader, "q=expert")


def test_a_page_shows_that_not_everything_is_indexed(reader: Client, crew_location: Location) -> None:
    assert "Checkpoints that can be found so far: 0 of 6." in page(reader, "q=tea")
    index_all()
    assert "Indexing" not in page(reader, "q=tea")


def test_searches_are_saved_for_each_user(reader: Client, db: None) -> None:
    address = f"{SEARCH}saved/"
    saved = reader.post(address, {"name": "tea", "query": "q=tea&kind=output&evil=1"})
    assert saved["Location"] == f"{SEARCH}?q=tea&kind=output"
    assert 'href="/search/?q=tea&kind=output"' in page(reader, "")
    (one,) = SavedSearch.objects.all()
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    assert "oolong" not in stranger.get(SEARCH).content.decode()
    assert stranger.post(reverse("search-remove", args=[one.pk])).status_code == 404
    reader.post(reverse("search-remove", args=[one.pk]))
    assert not SavedSearch.objects.exists()


def test_a_saved_search_is_not_replaced_by_another_of_its_name(reader: Client, db: None) -> None:
    address = f"{SEARCH}saved/"
    reader.post(address, {"name": "tea", "query": "q=tea"})
    page = reader.post(address, {"name": "tea", "query": "q=coffee"}, follow=True).content.decode()
    assert 'id="save-error">You have another search' in page and 'value="coffee"' in page
    assert 'name="name" value="tea"' in page, "It can be corrected."
    assert SavedSearch.objects.get().query == "q=tea"


def test_a_saved_search_needs_a_name(reader: Client, db: None) -> None:
    answer = reader.post(f"{SEARCH}saved/", {"name": "", "query": "q=tea"})
    assert (
        answer.status_code == 422
        and 'id="save-error">A saved search needs a name' in answer.content.decode()
        and not SavedSearch.objects.exists()
    )
    assert 'value="tea"' in answer.content.decode(), "The search is still there."


def test_a_date_is_a_day_of_the_pages_time_zone(reader: Client, crew_run: Run) -> None:
    last = crew_run.checkpoints.latest("created_at")
    assert last.created_at
    day = timezone.localtime(last.created_at).date().isoformat()
    assert 'class="search-result"' in page(reader, f"since={day}&until={day}")
