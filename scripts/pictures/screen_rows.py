"""The demo whose screens are taken: its rows, those that it has not made itself, and their addresses."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from scripts.served_demo import ServedDemo, served_demo, set_up_django, started_demo

# The address of each screen by its name, with fields of the rows below in braces.
ADDRESSES = Path(__file__).with_name("screens.toml")
# The scores that the demo's forks are shown with, as a function of a project would give them.
SCORES = {"shorter-draft": 0.82, "year-2030": 0.61}
FUNCTION = "judge:headline"
# The scores of forks of a collection: the note of an item, what was recorded and what the fork has.
PAIRS = (
    ("Reads well, keep it.", 0.74, 0.79),
    ("Takes a source at its word.", 0.41, 0.68),
    ("Longer than asked for.", 0.55, 0.62),
    ("The headline names no year.", 0.80, 0.71),
)
EXPECTED = "AI checkpoints in 2026: keep one run, change one thing"
SOURCES = Path(__file__).resolve().parents[2] / "demo/src/newsroom"
DRAFT = """# AI checkpoints in 2026

Forking used to mean copying a folder and hoping. Now the branch is drawn where it left."""


def shown_rows() -> dict[str, Any]:
    """Return the rows and tokens that addresses name."""
    from viewer.models import Checkpoint, Job

    article = Checkpoint.objects.filter(location__path__endswith="/article", trigger="task_completed")
    forked = article.select_related("run__location").get(branch="shorter-draft", units_done=4)
    early = article.select_related("run__location").get(branch="main", units_done=1)
    start = article.select_related("run__location").get(branch="main", units_done=3)
    threads = Checkpoint.objects.filter(location__engine="langgraph").select_related("run")
    waiting = threads.filter(run__status="waiting", run__parent=None, branch="main").order_by("-row")[0]
    return {
        "forked": forked,
        "forked_part": _edited_output(forked),
        "early": early,
        "start": start,
        "thread": threads.order_by("-run__branch_count", "-row")[0],
        "waiting": waiting,
        "draft": threads.filter(source_key__startswith=Checkpoint.SCRATCH, is_branch_head=True).order_by(
            "row"
        )[0],
        "run": forked.run,
        "location": forked.location,
        "job": Job.objects.order_by("created_at")[0],
        "scored": _scored_sweep(start),
        "collected": _scored_collection(start),
        "coded": _with_earlier_code(
            article.select_related("run__location").get(branch="shorter-draft", units_done=3)
        ),
        "called": threads.filter(run__key="delivery-1002", step=1).latest("row"),
        "selected": "&".join(f"run={run.uid}" for run in _top_level_runs()),
        # At another location, because nothing is pruned while a job runs.
        "question": _question(Checkpoint.objects.filter(location__path__endswith="/interview").latest("row")),
        "run_token": _token("run", str(forked.run.uid)),
        "checkpoint_token": _token("checkpoint", f"{forked.run.uid}/{forked.checkpoint_id}"),
    }


def _edited_output(checkpoint: Any) -> str:
    """Return the id of the output that the demo's fork edited, the second one."""
    from viewer.engines import engine_of
    from viewer.records.bodies import stored_contents

    parts = engine_of(checkpoint.location).followed_parts(stored_contents(checkpoint))
    return [part.id for part in parts if part.section == "outputs"][1]


def _scored_sweep(start: Any) -> Any:
    """Return a sweep of the demo's forks with a score for each."""
    from viewer.models import Job, Sweep
    from viewer.records.collections import score_key

    forks = Job.objects.filter(branch__in=SCORES, run=start.run, kind=Job.Kind.FORK)
    sweep, _is_new = Sweep.objects.get_or_create(
        name="two ideas", defaults={"checkpoint": start, "score": FUNCTION}
    )
    for job in forks:
        Job.objects.filter(pk=job.pk).update(sweep=sweep, variation=job.branch.replace("-", " "))
        _score(
            score_key(job), start.run.checkpoints.filter(branch=job.branch).latest("row"), SCORES[job.branch]
        )
    return sweep


def _score(key: Any, end: Any, score: float) -> None:
    """Have a job of this key score a result."""
    from viewer.models import Job

    values = {"location": end.location, "run": end.run, "checkpoint": end, "branch": end.branch}
    values |= {"kind": Job.Kind.SCORE, "status": Job.Status.SUCCEEDED, "request": {"function": FUNCTION}}
    Job.objects.get_or_create(idempotency_key=key, defaults={**values, "result": json.dumps(score)})


def _scored_collection(start: Any) -> Any:
    """Return the sweep of a collection whose forks have a score next to what was recorded."""
    from viewer.models import Checkpoint, Job, Sweep
    from viewer.records.accounts import owner
    from viewer.records.collections import Subject, add_items, collection_named, recorded_key, score_key

    found = Checkpoint.objects.filter(location__engine="crewai", is_branch_head=True).order_by("pk")
    heads = found.exclude(state=Checkpoint.State.NO_COPY).select_related("run", "location")[: len(PAIRS)]
    collection = collection_named("Hard cases", owner())
    sweep, is_new = Sweep.objects.get_or_create(
        name="Hard cases, openai/gpt-4.1",
        defaults={"is_of_runs": True, "collection": collection, "score": FUNCTION},
    )
    for head, (note, before, after) in zip(heads if is_new else (), PAIRS, strict=False):
        subject = Subject(head, title=f"{head.run}, {head.branch}")
        add_items(collection, [subject], owner(), note=note, expected=EXPECTED)
        values = {"location": head.location, "run": head.run, "checkpoint": head, "branch": "gpt-4.1"}
        values |= {"kind": Job.Kind.FORK, "status": Job.Status.SUCCEEDED, "result": EXPECTED}
        values |= {"plan": [{"action": "runs", "unit": "1"}], "steps_used": 1, "tokens": 421}
        values |= {"started_at": timezone.now() - timedelta(seconds=3), "ended_at": timezone.now()}
        job = Job.objects.create(sweep=sweep, **values)
        _score(recorded_key(job), head, before)
        _score(score_key(job), head, after)
    return sweep


def _with_earlier_code(checkpoint: Any) -> Any:
    """Return the checkpoint. The job that wrote it has recorded the demo's code as of its first commit."""
    from viewer.models import Job, RecordedCode

    code = RecordedCode.of(checkpoint, checkpoint.location.project)
    commits = _git("log", "--format=%H", "--", str(SOURCES)).split()
    if code and commits:
        lines = _git("ls-tree", "-r", commits[-1], str(SOURCES)).splitlines()
        folder = SOURCES.parents[1]
        digests = {line.split("\t")[1].removeprefix(f"{folder.name}/"): line.split()[2] for line in lines}
        files = {name: digests.get(name, digest) for name, digest in code.files.items()}
        earlier = RecordedCode.stored(files, commits[-1], is_dirty=False, is_complete=True)
        Job.objects.filter(code=code, run=checkpoint.run).update(code=earlier)
    return checkpoint


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(SOURCES.parents[2]), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _top_level_runs() -> Any:
    from viewer.models import Run

    return Run.objects.top_level().filter(location__engine="crewai").order_by("pk")


@contextmanager
def asking(question: Any) -> Iterator[None]:
    """Make the question's job a running one. It has no runner, so nothing but this process may follow it."""
    from viewer.host.jobs.files import storage_of
    from viewer.models import Job

    storage, jobs = storage_of(question.job), Job.objects.filter(pk=question.job.pk)
    storage.create()
    with storage.following():
        jobs.update(status=Job.Status.RUNNING)
        question.job.questions.update(withdrawn_at=None)
        yield
        jobs.update(status=Job.Status.INTERRUPTED)
        question.job.questions.withdraw()


def _question(start: Any) -> Any:
    """Return the question of a job that is ``asking``."""
    from viewer.models import Job, Question

    values = {
        "kind": Job.Kind.FORK,
        "run": start.run,
        "checkpoint": start,
        "project": start.location.project,
        "status": Job.Status.INTERRUPTED,
        "started_at": timezone.now(),
    }
    job, _is_new = Job.objects.get_or_create(branch="reviewed", location=start.location, defaults=values)
    question, _is_new = Question.objects.get_or_create(
        job=job,
        number=1,
        defaults={
            "kind": Question.Kind.HUMAN_INPUT,
            "prompt": "Approve this output, or say what to change.",
            "context": {"unit": "Write the article", "output": DRAFT},
        },
    )
    return question


def _token(kind: str, target: str) -> str:
    """Return the token of a new share link."""
    from viewer.presentation.share_links import find_shared, make_link, subject_in
    from viewer.records.accounts import owner

    subject = subject_in(kind, target)
    shared = find_shared(subject) if subject else None
    assert shared, target
    return make_link(shared, owner())[1]


def served(folder: Path) -> AbstractContextManager[ServedDemo]:
    """Serve the demo that was prepared in the folder of the command line, or a new one."""
    return started_demo(Path(sys.argv[1])) if len(sys.argv) > 1 else served_demo(folder)


def rows_of(demo: ServedDemo) -> dict[str, Any]:
    """Return the rows that the addresses name."""
    # Playwright runs an event loop in this thread, in which rows are changed as well.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    set_up_django(demo)
    return shown_rows()


def screens(rows: dict[str, Any]) -> dict[str, str]:
    """Return the address of each screen by its name."""
    return {name: address.format_map(rows) for name, address in tomllib.loads(ADDRESSES.read_text()).items()}
