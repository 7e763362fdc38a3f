"""Writes comments made of script payloads, hostile Markdown, mentions and secrets.

Passes if no script runs in a real browser and nothing becomes markup, if every page is there within seconds,
if nobody is notified of what they may not see and no page says who exists, and if no secret is stored.
"""

import asyncio
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from playwright.async_api import async_playwright

from quality.fuzz.routes_by_roles import CHANGING, browser
from quality.fuzz.script_injection.browser import Seen, visit, watched_context
from quality.fuzz.script_injection.pages import listener
from quality.fuzz.script_injection.payloads import filled, payload_forms
from quality.served import Served, served
from quality.tables import print_heading, print_row
from scripts.chromium import launch_options
from scripts.served_demo import log_in_browser

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from viewer.models import Checkpoint

# Comments on one page.
TOGETHER = 20
MENTIONS = 200
# A page with twenty hostile comments, on a busy machine.
SECONDS = 10
# The keys of comments on a page.
KEYS = re.compile(
    r"comment-\d+|/comments/\d+/|edit-\d+|reply-\d+|\breply_to\" value=\"\d+|data-[a-z-]+=\"\d+"
)
# Around a payload: Markdown that may let it through.
AROUND = (
    *("{}", "[x]({})", "![x]({})", "<{}>", "[x]: {}\n\n[x]", "`{}`", "> {}", "# {}", "| a |\n|---|\n| {} |"),
    *("[{}](https://x.example)", '[x](https://x.example "{}")', "*{}*", "- {}", "    {}", "```\n{}\n```"),
    *("@{}", "&#60;{}", "\\{}", "[x](javascript&colon;{})", "**a**{}", "[x](\n{})", "<!-- {} -->"),
)
# Each is repeated until a comment is as long as possible.
HOSTILE = (
    *("> ", "- ", "[", "](", "![", "*", "_a_ ", "`", "<", "&", "@a ", "#", "|a", "1. ", "\\", "~~a", "**a"),
    *("<!--", "```\n", "    a\n", "\n\n", "[a]: b\n", "&#0;", "a\n===\n", "*a_ ", "[[[]]]", "\u202e"),
    *("[a](", '<a href="', "\u0301", "http://a", "a@b.c ", ">>>>> - ", "\t", "🏴", "* * *\n", "| - "),
    "||||\n",
)  # fmt: skip


# Scripts.


def write_payloads(checkpoint: "Checkpoint", person: "User", payloads: Mapping[int, str]) -> list[str]:
    """Write a comment with each payload, and a reply to every other one. Return the pages to open."""
    from viewer.records.annotations import Discussed, address_of, write

    run = checkpoint.run
    subjects = [
        Discussed(checkpoint.location, run),
        Discussed(checkpoint.location, run, checkpoint.checkpoint_id),
    ]
    pages = Counter[str]()
    for number, payload in payloads.items():
        subject = subjects[number % 2]
        text = AROUND[number % len(AROUND)].format(payload)
        comment = write(subject, person, f"{text}\n\n«comment {number}»")
        if number % 3 == 0:
            write(subject, person, f"{payload}\n«reply {number}»", comment.pk)
        pages[address_of(subject)] += 1
    return [
        f"{address}{'&' if '?' in address else '?'}page={page}"
        for address, count in pages.items()
        for page in range(1, -(-count // TOGETHER) + 1)
    ]


async def shown(site: str, addresses: list[str], state: object) -> list[Seen]:
    """Open the pages with and without an enforced policy. Return what the browsers observed."""
    found = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(**launch_options())
        for with_policy in (True, False):
            seen = Seen()
            context = await watched_context(
                chromium, site, seen, with_policy=with_policy, storage_state=state
            )
            page = await context.new_page()
            for address in addresses:
                await visit(page, address, seen)
            found.append(seen)
            await context.close()
        await chromium.close()
    return found


def attack_scripts(folder: Path, dashboard: Served, payloads: Mapping[int, str]) -> list[Seen]:
    """Write the payloads, and open the pages that show them."""
    from playwright.sync_api import sync_playwright

    checkpoint, people = prepared(folder)
    addresses = write_payloads(checkpoint, people[0], payloads)
    addresses += [checkpoint.get_absolute_url(), checkpoint.run.get_absolute_url()]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(**launch_options())
        page = chromium.new_page()
        log_in_browser(page, dashboard.link)
        state = page.context.storage_state()
        chromium.close()
    return asyncio.run(shown(dashboard.site, addresses, state))


# Markdown.


def attack_markdown(checkpoint: "Checkpoint", person: "User", counts: Counter[str]) -> list[str]:
    """Open pages of twenty comments that are as long as possible. Return what was wrong."""
    from viewer.models import Comment
    from viewer.records.annotations import MAX_COMMENT, Discussed, address_of, write

    client, wrong = browser(), list[str]()
    client.force_login(person)
    subject = Discussed(checkpoint.location, checkpoint.run)
    for text in HOSTILE:
        Comment.objects.all().delete()
        whole = (text * MAX_COMMENT)[:MAX_COMMENT]
        for _ in range(TOGETHER):
            # Blanks alone are no comment.
            write(subject, person, f"a{whole[:-1]}")
        began = time.monotonic()
        response = client.get(address_of(subject))
        took = time.monotonic() - began
        counts["pages"] += 1
        counts["slowest ms"] = max(counts["slowest ms"], int(1000 * took))
        if response.status_code != 200 or took > SECONDS:
            wrong.append(f"{text!r}: status {response.status_code} after {took:.1f} s")
    for text in ("", " \n\t", "\x00", "a" * (MAX_COMMENT + 1)):
        counts["refused"] += 1
        before = Comment.objects.count()
        status = client.post(f"{address_of(subject)}add/", {"text": text}).status_code
        if status != 422 or Comment.objects.count() != before:
            wrong.append(f"{text[:20]!r}: status {status}")
    Comment.objects.all().delete()
    return wrong


# Mentions.


def attack_mentions(
    chance: random.Random, checkpoint: "Checkpoint", people: "list[User]", counts: Counter[str], tries: int
) -> list[str]:
    """Mention people who may see a run, who may not, and who do not exist. Return what was wrong."""
    from django.utils import timezone

    from viewer.models import Comment, Notification, NotificationTarget
    from viewer.records.annotations import MAX_MENTIONED, Discussed, write
    from viewer.records.notifications import collect

    writer, seeing, others = people[0], people[1:4], people[4:]
    for person in people:
        NotificationTarget.objects.get_or_create(
            user=person, kind="mail", defaults={"address": "a@b.example", "since": timezone.now()}
        )
    client, wrong = browser(), list[str]()
    client.force_login(writer)
    for _ in range(tries):
        named = [chance.choice([*people[1:], None]) for _ in range(chance.choice((1, 3, 30)))]
        texts = [f"@{one.username if one else f'nobody{uuid4().hex[:4]}'}" for one in named]
        form = chance.choice(
            ("{}", "`{}`", "[{}](https://x.example)", "({})", "{},", "{}.", "**{}**", "x {} ")
        )
        text = " ".join(form.format(one) for one in texts)
        comment = write(Discussed(checkpoint.location, checkpoint.run), writer, text)
        mentioned = set(comment.mentioned.all())
        counts["comments"] += 1
        counts["mentioned"] += len(mentioned)
        if mentioned & set(others) or len(mentioned) > MAX_MENTIONED:
            wrong.append(f"{text[:200]}: mentions {mentioned}")
    # Somebody who may not see the run is shown as somebody who does not exist.
    for other in others:
        pages = []
        for name in (other.username, "x" * len(other.username)):
            Comment.objects.all().delete()
            write(Discussed(checkpoint.location, checkpoint.run), writer, f"Ask @{name}.")
            page = client.get(f"/runs/{checkpoint.run.uid}/comments/").content.decode()
            pages.append(KEYS.sub("", CHANGING.sub("", page)).replace(name, ""))
        counts["compared"] += 1
        if pages[0] != pages[1]:
            at = next(n for n, (a, b) in enumerate(zip(*pages, strict=False)) if a != b)
            wrong.append(f"{other}: is shown otherwise than nobody, {pages[0][at - 60 : at + 60]!r}")
    collect()
    told = set(Notification.objects.filter(event="comment.mention").values_list("target__user", flat=True))
    if told - {person.pk for person in seeing}:
        wrong.append(f"notified {told}")
    Comment.objects.all().delete()
    return wrong


# Secrets.


def attack_secrets(checkpoint: "Checkpoint", person: "User", counts: Counter[str]) -> list[str]:
    """Write every kind of secret, in Markdown of each kind. Return those that were stored or shown."""
    from tests.redaction.canaries import TEXTS, TOKENS
    from viewer.models import Comment
    from viewer.records.annotations import Discussed, edit, write

    client, wrong = browser(), list[str]()
    client.force_login(person)
    subject = Discussed(checkpoint.location, checkpoint.run)
    samples = {name: (token, token) for name, token in TOKENS.items()} | TEXTS
    for name, (text, secret) in samples.items():
        for form in (
            "{}",
            "`{}`",
            "see {} please",
            "```\n{}\n```",
            "> {}",
            "| {} |",
            "@ada {}",
            "[x]({})",
            "\n\n{}\r\n",
        ):
            comment = write(subject, person, form.format(text))
            page = client.get(f"/runs/{checkpoint.run.uid}/comments/").content.decode()
            stored = Comment.objects.get(pk=comment.pk).text
            edit(comment, subject, f"Edited: {form.format(text)}")
            stored += Comment.objects.get(pk=comment.pk).text
            counts["secrets"] += 1
            if secret in stored or secret in page:
                wrong.append(f"{name} in {form!r}: {stored[:200]!r}")
            Comment.objects.all().delete()
    return wrong


# The stage.


def prepared(folder: Path) -> "tuple[Checkpoint, list[User]]":
    """Return a checkpoint, a writer, three people who may see it, and four who may not. Needs Django."""
    from django.contrib.auth.models import User

    from tests.views.forking import CREW, create_location, stored
    from viewer.models import Level, Role

    checkpoint = stored(create_location((folder / "newsroom").resolve()), CREW)
    elsewhere = create_location((folder / "elsewhere").resolve())
    people = [User.objects.create_user(f"person{number}") for number in range(8)]
    for person in people[:4]:
        Role.objects.create(user=person, location=checkpoint.location, level=Level.OPERATOR)
    Role.objects.create(user=people[4], location=elsewhere, level=Level.ADMIN)
    Role.objects.create(user=people[5], location=checkpoint.location, level=Level.ADMIN)
    User.objects.filter(pk=people[5].pk).update(is_active=False)
    return checkpoint, people


def main() -> int:
    """Print a table of each attack. Return 1 if a check failed."""
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as name, listener() as (host, asked):
        folder = Path(name)
        (folder / "data").mkdir()
        payloads = {n: filled(form, n, host) for n, form in enumerate(payload_forms(), 1)}
        with served(folder / "data") as dashboard:
            seen = attack_scripts(folder, dashboard, payloads)
            wrong = report(len(payloads), seen, asked) + attack_rows(folder / "rows")
    print(*wrong[:40], sep="\n")
    return int(bool(wrong))


def report(payloads: int, seen: list[Seen], asked: set[str]) -> list[str]:
    """Print what the browsers observed. Return what was wrong."""
    observed = ("pages", "shown", "scripts run", "requests", "reports", "became markup")
    print_heading("the browser", "payloads", *observed)
    wrong = [f"requested {one}" for one in asked]
    for name, one in zip(("heeds the policy", "does not"), seen, strict=True):
        shown_ones = len(one.shown["comment"])
        counts = (len(one.ran), len(one.requests), len(one.reports), len(one.markup))
        print_row(name, payloads, one.pages, shown_ones, *counts)
        wrong += [*one.ran, *one.requests, *one.reports, *one.markup, *one.failed]
        # Some payloads comment out what follows.
        if shown_ones < payloads * 2 / 3:
            wrong.append(f"only {shown_ones} comments were shown")
    print()
    return wrong


def attack_rows(folder: Path) -> list[str]:
    """Print tables of the attacks without a browser. Return what was wrong."""
    from django.contrib.auth.models import User

    User.objects.filter(username__startswith="person").delete()
    folder.mkdir()
    checkpoint, people = prepared(folder)
    all_wrong = list[str]()
    counts = Counter[str]()
    wrong = attack_markdown(checkpoint, people[0], counts)
    print_heading("hostile Markdown", "pages", "slowest ms", "refused", "wrong")
    print_row("", counts["pages"], counts["slowest ms"], counts["refused"], len(wrong))
    all_wrong += wrong
    wrong = attack_mentions(random.Random(2), checkpoint, people, counts, MENTIONS)
    print()
    print_heading("mentions", "comments", "mentioned", "compared with nobody", "wrong")
    print_row("", counts["comments"], counts["mentioned"], counts["compared"], len(wrong))
    all_wrong += wrong
    wrong = attack_secrets(checkpoint, people[0], counts)
    print()
    print_heading("secrets", "comments", "stored or shown")
    print_row("", counts["secrets"], len(wrong))
    return all_wrong + wrong


if __name__ == "__main__":
    sys.exit(main())
