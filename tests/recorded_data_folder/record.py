"""Makes the data folder of README.md. Runs with the code of the version that is recorded.

``DATA_DIR=/srv/forkline python record.py`` in a checkout of that version. Later versions may have renamed or
removed what it uses.
"""

import os
import sys
import uuid
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
STORES = Path("/srv/checkpoints")
AT = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
LATER = datetime(2126, 1, 1, tzinfo=UTC)


def version(module: str) -> Any:
    """Return a module of the recorded version by its name then, which nothing here may change."""
    return import_module(module)


def main() -> None:
    """Import the stores, and add one of everything else."""
    import django

    django.setup()
    from django.apps import apps
    from django.core.management import call_command

    prepare_data_folder = version("viewer.data_folder").prepare_data_folder

    prepare_data_folder()
    for store in sorted(STORES.iterdir()):
        call_command("import_checkpoints", str(store))
    import_run = version("viewer.host.locations.importing").import_run

    models: dict[str, Any] = {model.__name__: model for model in apps.get_models()}
    for run in models["Run"].objects.filter(location__engine="langgraph"):
        import_run(run)
    owner = models["User"].objects.create_superuser("owner")
    viewer = models["User"].objects.create_user("reader")
    viewer.user_permissions.add(models["Permission"].objects.get(codename="can_run"))
    viewer.groups.add(models["Group"].objects.create(name="newsroom"))
    project = _project(models, owner)
    _jobs(models, project, owner)
    _sweep(models, project, owner)
    models["DayLimits"].objects.create(limits={"tokens": 50000, "steps": 20})
    _unreachable_location(models)
    _annotations(models, owner)
    _personal(models, owner)
    _copies_and_index(models)


def _project(models: dict[str, Any], owner: Any) -> Any:
    """A confirmed project with limits, an accepted effect and a preflight check of each result."""
    project = models["Project"].objects.create(
        folder="/srv/newsroom",
        interpreter="/srv/newsroom/.venv/bin/python",
        environment_file="/srv/newsroom/.env",
        entry_points=["newsroom.crew:Newsroom", "newsroom.flow:DigestFlow"],
        limits={"tokens": 20000},
        secrets_digest="e" * 64,
        confirmed_at=AT,
        confirmed_by=owner,
    )
    models["Location"].objects.filter(engine="crewai").update(project=project)
    for number, kind in enumerate(("module", "command", "file", "host", "key", "value")):
        models["AcceptedEffect"].objects.create(
            project=project,
            key=str(number) * 64,
            kind=kind,
            name="newsroom.tools",
            digest="b" * 64,
            detail="read",
            tool="Archive",
            field="path",
            is_bound=number > 0,
            accepted_at=AT,
            accepted_by=owner,
        )
    statuses = {
        "waiting": {},
        "checking": {},
        "done": {"components": [{"kind": "tool", "name": "Archive"}], "is_complete": True},
        "failed": {},
    }
    for number, (status, report) in enumerate(statuses.items(), 90):
        models["PreflightCheck"].objects.create(
            id=uuid.UUID(int=number),
            checkpoint=None if status == "waiting" else _checkpoint(models),
            entity="crew" if status == "waiting" else "",
            store_kind="json" if status == "waiting" else "",
            project=project,
            entry_point="newsroom.crew:Newsroom",
            fingerprint="c" * 64,
            status=status,
            report=report,
            error=_message("The model is busy") if status == "failed" else None,
            created_at=AT,
            ended_at=AT if status in ("done", "failed") else None,
        )
    return project


def _message(text: str) -> Any:
    return version("viewer.messages.message").UserMessage("plain_text", {"text": text})


def _checkpoint(models: dict[str, Any]) -> Any:
    """The last checkpoint of a crew in a folder."""
    crews = models["Checkpoint"].objects.filter(entity="crew", location__path__endswith="/crew")
    return crews.order_by("source_key").last()


def _jobs(models: dict[str, Any], project: Any, owner: Any) -> None:
    """A job of each status with events, questions and files, and one of each other kind."""
    statuses = ("queued", "starting", "running", "succeeded", "failed", "cancelled", "interrupted")
    for number, status in enumerate(statuses, 1):
        job = _job(models, project, owner, number, status)
        _events(models, job, status)
        folder = Path(os.environ["DATA_DIR"]) / "jobs" / str(job.pk)
        folder.mkdir(parents=True, mode=0o700)
        (folder / "log.txt").write_text(f"What job {number} printed.\n")
    kinds = ("human_input", "human_feedback", "text_input", "program_input", "interrupt")
    for number, kind in enumerate(kinds, 1):
        answer = "Make it shorter." if number % 2 == 0 else ""
        models["Question"].objects.create(
            job_id=uuid.UUID(int=3),
            number=number,
            kind=kind,
            prompt=f"Is draft {number} good?",
            context={"task": "Write", "output": f"The text of draft {number}."},
            asked_at=AT + timedelta(minutes=number),
            answer=answer,
            answered_at=AT + timedelta(minutes=5) if answer else None,
            answered_by=owner if answer else None,
            withdrawn_at=AT + timedelta(minutes=6) if number == 5 else None,
        )
    for number, kind in enumerate(("resume", "run", "publish"), 10):
        _job(models, project, owner, number, "succeeded", kind=kind)
    # Its start time is far away, so that no worker starts it.
    module = version("viewer.host.jobs.worker")
    module.enqueue(models["Job"].objects.get(status="queued"))


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


def _job(
    models: dict[str, Any],
    project: Any,
    owner: Any,
    number: int,
    status: str,
    kind: str = "fork",
    **values: Any,
) -> Any:
    checkpoint = _checkpoint(models)
    has_started = status != "queued"
    has_ended = status not in ("queued", "starting", "running")
    request = {
        "kind": kind,
        "branch": f"what-if-{number}",
        "inputs": {"topic": None if has_ended else "tea"},
        "options": {"cache_warmup": "parallel"},
    }
    limit = {"whose": "job", "measure": "steps", "max_amount": 5} if status == "cancelled" else {}
    return models["Job"].objects.create(
        id=uuid.UUID(int=number),
        idempotency_key=uuid.UUID(int=100 + number),
        kind=kind,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=project,
        requested_by=owner,
        branch=f"what-if-{number}",
        request=request,
        plan=PLAN,
        status=status,
        created_at=AT + timedelta(minutes=number),
        started_at=AT + timedelta(minutes=number) if has_started else None,
        ended_at=AT + timedelta(minutes=number, seconds=30) if has_ended else None,
        start_at=None if has_started else LATER,
        request_digest="d" * 64,
        limits={"tokens": 1000 * number},
        tokens=100 * number,
        steps_used=number,
        limit_hit=limit,
        stopped_before=["two"] if number == 4 else [],
        process_id=4_000_000 + number if has_started else None,
        usage=[{"model": "gpt-4o-mini", "calls": 2, "tokens_in": 60, "tokens_out": 40}],
        tokens_in=60,
        tokens_out=40,
        model="gpt-4o-mini",
        cost=0.25,
        result="The article about tea." if status == "succeeded" else "",
        error=_message("RateLimitError: the model is busy") if status == "failed" else None,
        traceback="Traceback: the model is busy" if status == "failed" else "",
        log_end=f"What job {number} printed.\n" if has_ended else "",
        **values,
    )


def _events(models: dict[str, Any], job: Any, status: str) -> None:
    """The events of a job that has started."""
    if status == "queued":
        return
    lines: list[tuple[str, dict[str, Any]]] = [
        ("started", {"pid": 1, "engine": "crewai", "engine_version": "1.15.30"}),
        ("preflight", {"report": {"components": []}}),
        ("cache_warmed", {"agents": ["Reporter"], "strategy": "parallel", "tokens": 7}),
        ("task_started", {"task": "one", "position": 1, "description": "Collect", "agent": "Reporter"}),
        ("task_completed", {"task": "one", "position": 1, "agent": "Reporter", "output": "Tea is a drink."}),
    ]
    if job.ended_at:
        lines.append(("ended", {"status": status, "result": job.result}))
    for seq, (kind, data) in enumerate(lines, 1):
        models["JobEvent"].objects.create(
            job=job, seq=seq, kind=kind, at=AT + timedelta(minutes=1, seconds=seq), data=data
        )


def _sweep(models: dict[str, Any], project: Any, owner: Any) -> None:
    """Two forks that differ in an input, stopped at the limit that they share, and their scores."""
    sweep = models["Sweep"].objects.create(
        id=uuid.UUID(int=80),
        idempotency_key=uuid.UUID(int=180),
        name="topics",
        checkpoint=_checkpoint(models),
        limits={"tokens": 3000},
        score="newsroom.scores:length",
        created_at=AT,
        requested_by=owner,
    )
    for number, topic in ((8, "coffee"), (9, "cocoa")):
        job = _job(models, project, owner, number, "interrupted", sweep=sweep, variation=f"topic={topic}")
        job.limit_hit = {"whose": "sweep", "measure": "tokens", "max_amount": 3000}
        job.save()
    _job(models, project, owner, 13, "succeeded", kind="score", sweep=sweep)


def _unreachable_location(models: dict[str, Any]) -> None:
    """A database that is not named in the settings any more."""
    models["Location"].objects.create(
        path="postgresql:threads",
        engine="langgraph",
        store_kind="postgresql",
        added_at=AT,
        imported_at=AT,
        read_error=_message("The server is down"),
        identity="1:2",
        replaced_by="3:4",
        import_state="cancelled",
        import_done=5,
        import_total=9,
    )


def _annotations(models: dict[str, Any], owner: Any) -> None:
    """Names, stars, labels and notes of each engine's run, branch and checkpoint, and their former texts."""
    module = version("viewer.records.annotations")
    subject_of, annotate = module.AnnotatedObject, module.annotate

    for engine in ("crewai", "langgraph"):
        checkpoint = models["Checkpoint"].objects.filter(location__engine=engine).order_by("pk").first()
        run = checkpoint.run
        subjects = (
            subject_of(run),
            subject_of(run, branch=checkpoint.branch),
            subject_of(run, checkpoint_id=checkpoint.checkpoint_id),
        )
        for subject in subjects:
            annotate(subject, owner, name="Draft", labels=["tea"], note="A first note.")
            annotate(
                subject,
                owner,
                name="Final",
                is_starred=True,
                labels=["tea", "final"],
                note="A *better* note.",
            )


def _personal(models: dict[str, Any], owner: Any) -> None:
    """The share links, saved searches and settings of a person."""
    module = version("viewer.presentation.share_links")
    hash_of, subject_of = module.hash_of, module.subject_of

    checkpoint = _checkpoint(models)
    sides = f"a={checkpoint.pk}&b={checkpoint.parent_id}"
    job = f"/jobs/{uuid.UUID(int=4)}/"
    addresses = (checkpoint.get_absolute_url(), f"/compare/?{sides}", "/search/?q=tea", job)
    subjects = [
        subject_of(checkpoint.run.get_absolute_url(), whole_run=True),
        *(subject_of(address) for address in addresses),
    ]
    for number, subject in enumerate(filter(None, subjects)):
        models["ShareLink"].objects.create(
            token_hash=hash_of(f"token-{number}"),
            kind=subject.kind,
            target=subject.target,
            title=f"A {subject.kind}",
            locations=[checkpoint.location_id],
            made_by=owner,
            created_at=AT,
            expires_at=LATER,
            revoked_at=AT if subject.kind == "search" else None,
            views=number,
            last_viewed_at=AT,
            unfurls=subject.kind == "run",
        )
    models["SavedSearch"].objects.create(user=owner, name="Tea", query="q=tea")
    models["ReaderSettings"].objects.create(
        user=owner,
        theme="dark",
        time_zone="utc",
        clock="12",
        density="compact",
        language="pt-br",
        notifies=True,
    )


def _copies_and_index(models: dict[str, Any]) -> None:
    """Copy the annotated thread, read the inputs of all runs, and index all texts, as a worker does."""
    copy_some = version("viewer.host.locations.copying").copy_some
    describe_runs = version("viewer.host.locations.describing").describe_runs
    index_some = version("viewer.host.locations.search_index").index_some

    while copy_some():
        pass
    for location in models["Location"].objects.exclude(store_kind="postgresql"):
        describe_runs(location)
    while index_some(10):
        pass
    stored = models["Checkpoint"].objects.filter(location__path__endswith="/store.db")
    first, second, *_ = stored.order_by("pk")
    models["Checkpoint"].objects.filter(pk=first.pk).update(state="pruned")
    models["Checkpoint"].objects.filter(pk=second.pk).update(state="no_copy")
    models["StoredCopy"].objects.filter(pk=second.pk).update(data=b"")


if __name__ == "__main__":
    main()
