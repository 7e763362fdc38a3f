"""The page of a run with one branch selected."""

from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from viewer.models import Checkpoint, Run
from viewer.presentation.run.window import Wanted, window_of
from viewer.records.accounts import teammate

pytestmark = pytest.mark.postgresql


def ids(run: Run, wanted: Wanted) -> list[str]:
    return [line.checkpoint.checkpoint_id for line in window_of(run, wanted).lines]


def test_a_branch_is_shown_with_all_its_ancestors(crew_run: Run) -> None:
    own = crew_run.checkpoints.filter(branch="exp-a").order_by("-row")
    line = [row.checkpoint_id for row in own]
    parent = own.earliest("row").parent
    while parent is not None:
        line.append(parent.checkpoint_id)
        parent = parent.parent
    assert ids(crew_run, Wanted(branch="exp-a")) == line
    assert {row.branch for row in crew_run.checkpoints.filter(checkpoint_id__in=line)} == {"exp-a", "main"}


def test_other_branches_are_not_shown(crew_run: Run) -> None:
    own = crew_run.checkpoints.filter(branch="main").order_by("-row")
    assert ids(crew_run, Wanted(branch="main")) == [row.checkpoint_id for row in own]
    assert len(own) < crew_run.checkpoints.count()


def test_only_its_own_lines_are_drawn(crew_run: Run) -> None:
    window = window_of(crew_run, Wanted(branch="exp-a"))
    assert len(window.drawing.lines) == len(window.lines) - 1


def test_its_newest_checkpoint_is_selected(reader: Client, crew_run: Run) -> None:
    oldest = crew_run.checkpoints.filter(branch="main").earliest("row")
    Checkpoint.objects.filter(pk=oldest.pk).update(branch="first")
    page = reader.get(f"{crew_run.get_absolute_url()}?branch=first").content.decode()
    assert f'id="selection" name="at" value="{oldest.checkpoint_id}"' in page


def test_checkpoints_in_a_cycle_are_shown_once(crew_run: Run) -> None:
    first, second = crew_run.checkpoints.order_by("row")[:2]
    Checkpoint.objects.filter(pk=first.pk).update(parent=second)
    Checkpoint.objects.filter(pk=second.pk).update(parent=first)
    shown = ids(crew_run, Wanted(branch="main"))
    assert sorted(shown) == sorted({*shown})


@pytest.mark.parametrize("name", ["nobody", "' OR 1=1 --", "<b>x</b>"])
def test_an_unknown_branch_shows_a_message(reader: Client, crew_run: Run, name: str) -> None:
    page = reader.get(f"{crew_run.get_absolute_url()}?{urlencode({'branch': name})}").content.decode()
    assert "This run has no branch" in page
    assert "<b>x</b>" not in page


def test_rows_loaded_later_belong_to_the_branch(reader: Client, crew_run: Run) -> None:
    part = reader.get(f"{reverse('run-rows', args=[crew_run.uid])}?to=0&branch=exp-a").content.decode()
    assert part.count('<li class="row') == len(ids(crew_run, Wanted(branch="exp-a")))
    assert "branch=exp-a" in part
    assert 'id="run-branches"' in part


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_a_branch_is_picked_from_the_menu(
    browser: Browser, live_server: LiveServer, client: Client, crew_run: Run
) -> None:
    client.force_login(teammate("ada", "run"))
    context = browser.new_context()
    for name, morsel in client.cookies.items():
        context.add_cookies([{"name": name, "value": morsel.value, "url": live_server.url}])
    page = context.new_page()
    page.goto(live_server.url + crew_run.get_absolute_url())
    menu = page.locator("#branches")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Branch").click()
    expect(menu).to_be_visible()
    menu.get_by_role("link", name="main").click()
    expect(page.locator(".row")).to_have_count(crew_run.checkpoints.filter(branch="main").count())
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.locator(".row")).to_have_count(crew_run.checkpoints.count())
    context.close()
