"""Pages of share links: one object, read-only, without links to anything else and without paths."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from tests.sharing.conftest import share
from viewer.host.locations.search_index import index_some
from viewer.models import Job, JobEvent, Location, RecordedCode, Run, SearchEntry, ShareLink
from viewer.presentation import share_links
from viewer.records.accounts import teammate

TARGET = re.compile(r"""\b(?:href|src|action|formaction|hx-\w+|ws-connect|data-copy)="([^"]*)\"""")
# A page leads to parts of itself, its rows and its socket; static files are not data.
OWN = re.compile(r"(?:\?|#|rows/\?|/static/).*|/ws/shared/[^/]+/|")
WRITES = re.compile(
    r"<form|csrfmiddlewaretoken|X-CSRFToken|hx-post|breadcrumb|header-search|popovertarget=\"exports"
)
ADDRESSES = re.compile(r"""\b(?:href|src|action|formaction|hx-get|hx-post|ws-connect|data-copy)=""")


def check(page: str, location: Location) -> None:
    """The page leads to nothing else, accepts nothing, and names no path."""
    led = {unescape(one) for one in re.findall(ADDRESSES.pattern + '"([^"]*)"', page)}
    assert {one for one in led if not OWN.fullmatch(one)} == set()
    assert WRITES.search(page) is None
    assert location.path not in page and str(settings.DATA_DIR) not in page


@pytest.mark.parametrize("store", ["1.15.30/json", "1.15.30/flow", "langgraph/lg12.db"])
def test_every_tab_of_a_shared_run_leads_nowhere_else(
    imported: Callable[[str], Location], stranger: Client, store: str
) -> None:
    location = imported(store)
    run = location.runs.top_level().filter(checkpoint_count__gt=0).order_by("-checkpoint_count")[0]
    address = share("run", str(run.uid))
    page = stranger.get(address).content.decode()
    check(page, location)
    tabs = re.findall(r'id="tab-(\w+)"', page)
    assert len(tabs) > 1 and not {"raw", "graph", "subgraphs", "metadata"} & set(tabs)
    row = run.checkpoints.earliest("row")
    for tab in tabs:
        whole = stranger.get(address, {"at": row.checkpoint_id, "tab": tab}).content.decode()
        part = stranger.get(address, {"at": row.checkpoint_id, "tab": tab}, headers={"HX-Target": "detail"})
        assert row.checkpoint_id in part.content.decode() and "<html" not in part.content.decode()
        for shown in (whole, part.content.decode()):
            check(shown, location)
    for query in (
        "only=failed",
        f"branch={run.branch_names[0]}",
        "pruned=shown",
        "attempts=shown",
        "view=graph",
    ):
        check(stranger.get(f"{address}?{query}").content.decode(), location)
    rows = stranger.get(f"{address}rows/?to=0").content.decode()
    assert f'id="c{row.pk}"' in rows
    check(rows, location)


def test_a_shared_run_opens_on_what_was_just_produced(crew_run: Run, stranger: Client, run_link: str) -> None:
    page = stranger.get(run_link).content.decode()
    assert re.search(r'id="tab-output"[^>]*aria-current="true"', page)
    assert 'class="prose"' in page and "rendered-source" in page
    assert 'class="detail is-open"' in page, "A phone shows it before the list."
    (back,) = re.findall(r'class="detail-back" href="([^"]*)"', page)
    assert 'class="detail"' in stranger.get(run_link + unescape(back)).content.decode()


def test_a_shared_checkpoint_shows_no_other(crew_run: Run, crew_location: Location, stranger: Client) -> None:
    own, other = crew_run.checkpoints.order_by("row")[1:3]
    address = share("checkpoint", f"{crew_run.uid}/{own.checkpoint_id}")
    for query in ("", f"?at={other.checkpoint_id}", "?tab=overview", "?tab=tasks", "?tab=events", "?tab=raw"):
        page = stranger.get(address + query).content.decode()
        assert own.checkpoint_id in page and other.checkpoint_id not in page.replace(
            f"at={other.checkpoint_id}", ""
        )
        check(page, crew_location)
    assert stranger.get(f"{address}rows/").status_code == 404


def test_a_shared_comparison_stays_as_it_was(
    comparison_link: str, crew_location: Location, stranger: Client
) -> None:
    link = ShareLink.objects.get()
    assert "@" not in link.target, "A branch was replaced by its newest checkpoint."
    for query in ("", "?show=all", "?a=other&b=other", "?add=1"):
        page = stranger.get(comparison_link + query).content.decode()
        assert "Common ancestor" in page and 'id="selected"' in page
        check(page, crew_location)


def test_a_shared_search_runs_again_and_keeps_its_words(
    crew_location: Location, stranger: Client, transactional_db: None
) -> None:
    address = share("search", "q=report&kind=output")
    assert " 0 results" in stranger.get(address).content.decode()
    while index_some(60):
        pass
    words = SearchEntry.objects.filter(kind="output").values_list("text", flat=True)
    ShareLink.objects.update(target=f"q={words[0].split()[0]}&kind=output")
    for query in ("", "?q=secret&kind=prompt", "?before=999999999"):
        page = stranger.get(address + query).content.decode()
        assert "<mark>" in page and " 0 results" not in page
        check(page, crew_location)
    assert crew_location.name not in page


def test_a_shared_job_has_no_actions(location: Location, stranger: Client) -> None:
    job = Job.objects.create(
        kind=Job.Kind.RUN,
        location=location,
        project=location.project,
        status=Job.Status.FAILED,
        started_at=timezone.now(),
        ended_at=timezone.now(),
        traceback=f'File "{location.path}/crew.py"',
        result=f"written to {location.path}/out.md",
    )
    JobEvent.objects.create(job=job, seq=1, kind="checkpoint", at=timezone.now(), data={"id": "somewhere"})
    code = RecordedCode.stored({"secret_plan.py": "1"}, "c0ffee" * 6, is_dirty=True, is_complete=True)
    job.record_code(code)
    page = stranger.get(share("job", str(job.pk))).content.decode()
    check(page, location)
    assert "somewhere" in page and "crew.py" not in page and "written to [path]" in page
    assert "c0ffee" not in page and "secret_plan" not in page and "uncommitted" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r'{"error": "failed:\n/srv/team/app/crew.py"}', r'{"error": "failed:\n[path]"}'),
        (r"a\t/srv/team/app", r"a\t[path]"),
        ("No module in /srv/team/app.", "No module in [path]."),
        ("in /srv/team/app... or not", "in [path]... or not"),
        (
            "/srv/team/app.bak, /srv/team/app-old and /srv/team/apps",
            "/srv/team/app.bak, /srv/team/app-old and /srv/team/apps",
        ),
    ],
)
def test_a_path_is_replaced_wherever_it_ends(text: str, shown: str) -> None:
    assert share_links.without_paths(text, ["/srv/team/app"]) == shown


def test_the_preview_is_the_page_itself(crew_run: Run, stranger: Client) -> None:
    def content(page: str) -> str:
        """The page without its header, which has the time, and the socket of the link."""
        return re.sub(r"^.*</header>|<aside class=.live.*</aside>", "", page, flags=re.DOTALL)

    runner = Client()
    runner.force_login(teammate("runner", "run"))
    subject = share_links.Subject(ShareLink.Kind.RUN, str(crew_run.uid))
    form = runner.get(reverse("share"), {"kind": subject.kind, "target": subject.target}).content.decode()
    preview = reverse("share-preview", args=[subject.path])
    assert f'<iframe src="{preview}"' in form
    shown = stranger.get(share("run", str(crew_run.uid))).content.decode()
    previewed = Client().get(preview)
    assert previewed.status_code == 302, "The preview needs a login."
    answer = runner.get(preview)
    assert "frame-ancestors 'self'" in answer["Content-Security-Policy"]
    assert content(answer.content.decode()).split() == content(shown).split()
    check(answer.content.decode(), crew_run.location)


def test_a_link_is_made_and_revoked_on_the_pages(runner: Client, crew_run: Run, stranger: Client) -> None:
    asked = f"{reverse('share')}?kind=run&target={crew_run.uid}"
    assert runner.post(asked, {"days": "4000"}).status_code == 422
    page = runner.post(asked, {"days": "1", "unfurls": "on"}).content.decode()
    (address,) = re.findall(r'id="share-address"[^>]*>http://testserver(/shared/[^<]+)<', page)
    assert stranger.get(address).status_code == 200
    link = ShareLink.objects.get()
    assert link.unfurls and (link.expires_at - link.created_at).days == 1
    listed = runner.get(reverse("shares")).content.decode()
    assert "works" in listed and address.split("/")[2] not in listed
    runner.post(reverse("share-revoke", args=[link.pk]))
    assert stranger.get(address).status_code == 404
    page = runner.get(reverse("shares")).content.decode()
    assert "revoked" in page and escape(f"Revoked the link to {link.title}.") in page


@pytest.mark.parametrize(
    "query",
    [
        "",
        "kind=run",
        "kind=run&target=x",
        "kind=location&target=1",
        "kind=checkpoint&target=",
        "kind=search&target=q=",
        *(f"kind={kind}&target={'q=a%26' * 200}" for kind in ("comparison", "search")),
    ],
)
def test_what_does_not_exist_cannot_be_shared(runner: Client, query: str) -> None:
    assert runner.get(f"{reverse('share')}?{query}").status_code == 404
    assert runner.post(f"{reverse('share')}?{query}", {"days": "7"}).status_code == 404
    assert not ShareLink.objects.exists()


def test_the_list_of_links_looks_for_each_object_once(
    runner: Client, run_link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[ShareLink]()

    def counted(link: ShareLink) -> share_links.Shared | None:
        found.append(link)
        return shared_by(link)

    shared_by = share_links.shared_by
    monkeypatch.setattr(share_links, "shared_by", counted)
    page = runner.get(reverse("shares")).content.decode()
    assert "works" in page and len(found) == ShareLink.objects.count() == 1
