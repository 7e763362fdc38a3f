"""The steps of a person who forks a checkpoint of the demo in a browser."""

from playwright.sync_api import Page, expect

# Importing an engine takes seconds, or longer while other tests use the cores.
RUN_MILLISECONDS = 120_000


def open_article(page: Page) -> None:
    page.get_by_role("link", name="newsroom/article", exact=True).first.click()
    page.get_by_role("link", name="article", exact=True).click()


def fork_with_edits(page: Page) -> None:
    """Edit the checkpoint after the second task, and start the fork once its plan and check are shown."""
    select_second_task_of_main(page)
    page.locator("#detail").get_by_role("link", name="Fork", exact=True).click()
    edit_an_input_and_an_output(page)
    expect_the_plan(page)
    page.get_by_label("Branch").fill("year-2031")
    # The button waits until what it starts has been shown.
    expect(page.locator("#start")).to_contain_text("article, branch year-2031")
    # The preflight check comes first, and nothing of the demo's crew is lost.
    start = page.get_by_role("button", name="Start fork")
    expect(start).to_be_enabled(timeout=RUN_MILLISECONDS)
    expect(page.locator("#preflight")).to_contain_text("Everything restores.")
    start.click()


def watch_and_open_the_branch(page: Page) -> None:
    """Follow the fork to its end, and open its branch in this page and in another one."""
    bar = page.locator(".job-bar")
    expect(bar).to_contain_text("year-2031")
    expect(bar).to_contain_text("4 of 4", timeout=RUN_MILLISECONDS)
    head = page.locator(".row", has_text="year-2031")
    expect(head).to_contain_text("crew completed")
    expect(page.locator(".row", has_text="edited: Draft the article, year")).to_be_visible()

    bar.get_by_role("link", name="Show branch").click()
    expect(page.locator("#detail")).to_contain_text("year-2031")
    page.locator("#detail").get_by_role("link", name="Tasks").click()
    expect(page.locator("#detail")).to_contain_text("Nobody copies folders any more.")
    followed = page.context.new_page()
    followed.goto(page.url)
    expect(followed.locator("#detail")).to_contain_text("Nobody copies folders any more.")


def select_second_task_of_main(page: Page) -> None:
    """Select the checkpoint after the second task, which wrote the draft."""
    rows = page.locator(".row", has_text="task completed").filter(has_text="2/4")
    row = rows.last.get_by_role("link")
    row.click()
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator("#detail")).to_contain_text("main, task 2 of 4 completed")


def edit_an_input_and_an_output(page: Page) -> None:
    page.get_by_label("year", exact=True).fill("2031")
    page.locator("summary", has_text="Edit").nth(1).click()
    page.locator('textarea[name^="output:"]').nth(1).fill("Nobody copies folders any more.")


def expect_the_plan(page: Page) -> None:
    """What will happen is said before anything has run."""
    steps = page.locator("#plan li")
    expect(steps.nth(0)).to_contain_text("reused")
    expect(steps.nth(0)).to_contain_text("year")
    expect(steps.nth(1)).to_contain_text("edited")
    expect(steps.nth(2)).to_contain_text("runs")
    expect(steps.nth(3)).to_contain_text("runs")
    expect(page.get_by_text("nothing has run yet")).to_be_visible()
