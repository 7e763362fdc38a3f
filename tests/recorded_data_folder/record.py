"""Makes the data folder of README.md. Runs with the code of the version that is recorded.

``DATA_DIR=/srv/forkline python record.py`` in a checkout of that version. Models and columns have the names
that they had then, so nothing here imports a model.
"""

import os
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
STORES = Path("/srv/checkpoints")
AT = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)


def main() -> None:
    """Import the stores, and add one of everything else."""
    import django

    django.setup()
    from django.core.management import call_command

    from viewer.data_folder import prepare_data_folder

    prepare_data_folder()
    for store in sorted(STORES.iterdir()):
        call_command("import_checkpoints", str(store))
    from django.apps import apps

    project = _project(apps)
    _jobs(apps, project)
    _sweep(apps, project)
    apps.get_model("viewer", "DayLimits").objects.create(pk=1, limits={"tokens": 50000, "steps": 20})


def _project(apps: Any) -> Any:
    """A confirmed project with limits, an accepted effect and a preflight check."""
    owner = apps.get_model("auth", "User").objects.create_superuser("owner")
    project = apps.get_model("viewer", "Project").objects.create(
        folder="/srv/newsroom",
        interpreter="/srv/newsroom/.venv/bin/python",
        environment_file="/srv/newsroom/.env",
        entry_points=["newsroom.crew:Newsroom", "newsroom.flow:DigestFlow"],
        limits={"tokens": 20000},
        confirmed_at=AT,
        confirmed_by=owner,
    )
    apps.get_model("viewer", "Location").objects.update(project=project)
    apps.get_model("viewer", "AcceptedEffect").objects.create(
        project=project,
        key="a" * 64,
        kind="module",
        name="newsroom.tools",
        digest="b" * 64,
        accepted_at=AT,
        accepted_by=owner,
    )
    apps.get_model("viewer", "Look").objects.create(
        id=uuid.UUID(int=90),
        checkpoint=_checkpoint(apps),
        project=project,
        fingerprint="c" * 64,
        status="done",
        report={"parts": [{"kind": "tool", "name": "Archive"}], "is_complete": True},
        created_at=AT,
        ended_at=AT,
    )
    return project


def _checkpoint(apps: Any) -> Any:
    """The last checkpoint of a crew."""
    return apps.get_model("viewer", "Checkpoint").objects.filter(entity="crew").order_by("key").last()


def _jobs(apps: Any, project: Any) -> None:
    """A job of each status, with events, questions and texts. None has an entry in the queue."""
    statuses = ("queued", "starting", "running", "succeeded", "failed", "cancelled", "interrupted")
    for number, status in enumerate(statuses, 1):
        job = _job(apps, project, number, status)
        _events(apps, job, status)
        folder = Path(os.environ["DATA_DIR"]) / "jobs" / str(job.pk)
        folder.mkdir(parents=True, mode=0o700)
        (folder / "log.txt").write_text(f"What job {number} printed.\n")
    for number, answer in ((1, ""), (2, "Make it shorter.")):
        apps.get_model("viewer", "Question").objects.create(
            job_id=uuid.UUID(int=3),
            number=number,
            kind="human_input",
            prompt=f"Is draft {number} good?",
            context={"task": "Write", "output": f"The text of draft {number}."},
            asked_at=AT + timedelta(minutes=number),
            answer=answer,
            answered_at=AT + timedelta(minutes=5) if answer else None,
        )


PLAN = [
    {
        "unit": "one",
        "position": 1,
        "title": "Collect the facts",
        "agent": "Reporter",
        "action": "kept",
        "reason": "finished",
        "stale": [],
    }
]


def _job(apps: Any, project: Any, number: int, status: str, **values: Any) -> Any:
    checkpoint = _checkpoint(apps)
    has_started, has_ended = status != "queued", number > 3
    request = {
        "kind": "fork",
        "branch": f"what-if-{number}",
        "inputs": {"topic": None if has_ended else "tea"},
        "options": {"preload": "parallel"},
    }
    return apps.get_model("viewer", "Job").objects.create(
        id=uuid.UUID(int=number),
        idempotency_key=uuid.UUID(int=100 + number),
        kind="fork",
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=project,
        branch=f"what-if-{number}",
        request=request,
        plan=PLAN,
        status=status,
        created_at=AT + timedelta(minutes=number),
        started_at=AT + timedelta(minutes=number) if has_started else None,
        ended_at=AT + timedelta(minutes=number, seconds=30) if has_ended else None,
        start_at=None if has_started else datetime(2126, 1, 1, tzinfo=UTC),
        asked="d" * 64,
        limits={"tokens": 1000 * number},
        tokens=100 * number,
        steps=number,
        stopped_by={"whose": "job", "measure": "steps", "most": 5} if status == "cancelled" else {},
        result="The article about tea." if status == "succeeded" else "",
        error="RateLimitError: the model is busy" if status == "failed" else "",
        traceback="Traceback: the model is busy" if status == "failed" else "",
        log_end=f"What job {number} printed.\n" if has_ended else "",
        **values,
    )


def _events(apps: Any, job: Any, status: str) -> None:
    """The events of a job that has started, by the names of that version."""
    if status == "queued":
        return
    lines: list[tuple[str, dict[str, Any]]] = [
        ("started", {"pid": 1, "engine": "crewai", "engine_version": "1.14.7"}),
        ("look", {"report": {"parts": []}}),
        ("preloaded", {"agents": ["Reporter"], "strategy": "parallel", "tokens": 7}),
        ("task_started", {"task": "one", "position": 1, "description": "Collect", "agent": "Reporter"}),
        ("task_completed", {"task": "one", "position": 1, "agent": "Reporter", "output": "Tea is a drink."}),
    ]
    if job.ended_at:
        lines.append(("ended", {"status": status, "result": job.result, "error": job.error}))
    for seq, (kind, data) in enumerate(lines, 1):
        apps.get_model("viewer", "JobEvent").objects.create(
            job=job, seq=seq, kind=kind, at=AT + timedelta(minutes=1, seconds=seq), data=data
        )


def _sweep(apps: Any, project: Any) -> None:
    """Two forks that differ in an input, stopped at the limit that they share."""
    sweep = apps.get_model("viewer", "Variations").objects.create(
        id=uuid.UUID(int=80),
        idempotency_key=uuid.UUID(int=180),
        name="topics",
        checkpoint=_checkpoint(apps),
        limits={"tokens": 3000},
        created_at=AT,
    )
    for number, topic in ((8, "coffee"), (9, "cocoa")):
        job = _job(apps, project, number, "interrupted", variations=sweep, variation=f"topic={topic}")
        job.stopped_by = {"whose": "variations", "measure": "tokens", "most": 3000}
        job.save()


if __name__ == "__main__":
    main()
