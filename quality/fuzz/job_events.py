"""Follows runs that write events of any type to their spools, as the code of a project can.

Passes if each job is followed to its end, and if every page, feed, line and HTTP answer about it is shown.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quality.fuzz.routes_by_roles import program
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, logged_in, made_location, temporary_data_folder

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Job, Location

RUNS, EVENTS = 400, 120
RUNNER = ROOT / "tests/jobs/fake_runners/output/writes_lines.py"
RESULT = "in spite of them"
KINDS = (
    *("started", "text", "checkpoint", "checkpoint_failed", "question", "answered", "withdrawn", "warning"),
    *("model_started", "model_completed", "model_failed", "cache_warmed", "model_retried", "call_replayed"),
    *("tool_started", "tool_completed", "tool_failed", "tool_decided", "limit", "custom", "preflight"),
    *(f"{unit}_{what}" for unit in ("task", "method", "node") for what in ("started", "completed", "failed")),
    *("node_interrupted", "node_retried", "task_retried", "published", "breakpoint", "steps", "unknown"),
)
FIELDS = (
    *("pid", "engine", "engine_version", "model", "agent", "tool", "arguments", "output", "tokens", "cost"),
    *("tokens_in", "tokens_out", "total_tokens", "cached", "error", "waited", "task", "method", "node", "id"),
    *("path", "branch", "parent", "steps", "nodes", "thread", "into", "checkpoints", "report", "number"),
    *("text", "prompt", "context", "kind", "options", "message", "measure", "whose", "max_amount", "used"),
    *("team", "result", "status", "value", "name", "position", "decision", "is_cut", "messages", "tools"),
    *("parameters", "description", "title", "length", "traceback", "key", "values", "attempt", "seconds"),
)
NUMBERS = (-1, 0, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, 10**400, 0.5, -1.5, 1e308)
TEXTS = ("", "x", "4", "\x00", "a\x00b", "\ud800", "\u202e\u2028", "é" * 5_000, "../../etc/passwd", "%(x)s")
NOISE = (b"", b"[]", b"{", b"\xff\xfe", b"[" * 5_000, b'{"seq": 1}', b'{"seq": NaN, "at": 1}')


def any_value(chance: random.Random, depth: int = 3) -> Any:
    """Return a JSON value of any type. The names in it are often those that events have."""
    kind = chance.randrange(8 if depth else 5)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind <= 2:
        return chance.choice(NUMBERS)
    if kind <= 4:
        return chance.choice(TEXTS)
    if kind == 5:
        return [any_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    names = chance.choices((*FIELDS, *TEXTS), k=chance.randrange(6))
    return {name: any_value(chance, depth - 1) for name in names}


def data_of(chance: random.Random) -> dict[str, Any]:
    """Return the data of an event."""
    return {name: any_value(chance) for name in chance.sample(FIELDS, chance.randrange(16))}


def lines_of(chance: random.Random) -> bytes:
    """Return lines of a spool, some of which are no events."""
    lines = []
    for number in range(2, EVENTS):
        at, kind = 1_700_000_000 + number, chance.choice(KINDS)
        event: dict[str, Any] = {"seq": number, "at": at, "kind": kind, "data": data_of(chance)}
        if chance.random() < 0.2:
            event[chance.choice(list(event))] = any_value(chance)
        if chance.random() < 0.05:
            del event[chance.choice(list(event))]
        line = json.dumps(event).encode()
        lines += [line] if chance.random() < 0.95 else [line[:-9], chance.choice(NOISE), line, line]
    return b"\n".join(lines) + b"\n"


def follow_run(
    chance: random.Random, counts: Counter[str], location: "Location", clients: Sequence["Client"]
) -> list[str]:
    """Follow a run that writes such events, and open what shows it. Return what was wrong."""
    from viewer.host.jobs.following import ensure_finished
    from viewer.models import Job

    project = location.project
    assert project is not None
    Path(project.folder, "lines").write_bytes(lines_of(chance))
    job = Job.objects.create(kind=Job.Kind.FORK, location=location, project=project, branch="what-if")
    try:
        ensure_finished(job)
    except Exception as error:
        return [f"the job is not followed: {error!r}"]
    job.refresh_from_db()
    counts["events"] += job.events.count()
    ended = (job.status, job.result)
    return [
        *([] if ended == ("succeeded", RESULT) else [f"{ended}"]),
        *opened(job, counts, clients),
        *reported(job, chance.randrange(EVENTS)),
    ]


def opened(job: "Job", counts: Counter[str], clients: Sequence["Client"]) -> list[str]:
    """Open what shows a job or its events. Return what was wrong."""
    from django.urls import reverse

    addresses = [
        *(reverse(name, args=[job.pk]) for name in ("job", "job-answers", "job-timeline", "job-wait")),
        *(reverse(name, args=[job.pk]) for name in ("api-job", "api-job-events", "api-job-outcome")),
        *(reverse(name) for name in ("jobs", "jobs-waiting", "inbox", "inbox-waiting", "inbox-count")),
        *(reverse("question", args=[job.pk, one.number]) for one in job.questions.all()),
    ]
    wrong = []
    for address in addresses:
        client = clients[address.startswith("/api/")]
        try:
            status = client.get(address).status_code
        except Exception as error:
            wrong.append(f"{address}: {error!r}")
            continue
        counts["pages"] += 1
        # An outcome with an error is a conflict.
        if status not in (200, 204, 302, 409):
            wrong.append(f"{address}: {status}")
    return wrong


def reported(job: "Job", after: int) -> list[str]:
    """Send open pages the events after this number, and print all of them. Return what was wrong."""
    from viewer.cli.running import event_document, event_line
    from viewer.web.live.feeds import JobFeed

    wrong = []
    for whole in (True, False):
        feed = JobFeed(job.pk, after, whole, True)
        try:
            while feed.next_message() is not None:
                pass
        except Exception as error:
            wrong.append(f"a feed: {error!r}")
    for event in job.events.all():
        try:
            document = event_document(event)
            json.dumps(document and event_line(job.branch, document))
        except Exception as error:
            wrong.append(f"a line of the terminal: {error!r}")
    return wrong


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    counts, wrong = Counter[str](), list[str]()
    with temporary_data_folder() as folder:
        from django.conf import settings

        from viewer.models import Level
        from viewer.records.accounts import make_token
        from viewer.records.permissions import account_named

        settings.JOB_RUNNERS = {"crewai": RUNNER}
        location, person = made_location(folder), logged_in()
        token = make_token(account_named("bench"), "ci", Level.VIEWER)[1]
        for seed in range(RUNS):
            found = follow_run(random.Random(seed), counts, location, (person, program(token)))
            wrong += [f"seed {seed}: {reason}" for reason in found]
    print_heading("runs that write events of any type", "tried", "events stored", "pages opened", "wrong")
    print_row("of a fake runner", RUNS, f"{counts['events']:,}", f"{counts['pages']:,}", len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
