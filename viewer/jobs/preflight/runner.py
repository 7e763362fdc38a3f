"""Starts the runner of a preflight check, waits for it and stores its report."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from django.conf import settings

from viewer.engines import engine_name
from viewer.engines.planning.plan import Edits
from viewer.importing import stored_bytes
from viewer.jobs.execution import processes
from viewer.jobs.execution.following.event_rows import Redactor, redactor_of
from viewer.jobs.execution.following.outcome import outcome_of_exit
from viewer.jobs.execution.following.runner_process import LostRunner, RunnerProcess
from viewer.jobs.execution.starting.request import permissions_of, request_for, request_for_run
from viewer.jobs.execution.starting.start import JobRefused, runnable, start_runner
from viewer.jobs.request import LocationTarget, Request
from viewer.jobs.spool import SpoolEvent
from viewer.jobs.storage import JobStorage, storage_of
from viewer.messages.message import UserMessage, message_from, redacted_message
from viewer.models import Job, PreflightCheck

POLL_SECONDS = 0.05
# Maximum size of the checkpoint's copy and the output of the project's code together.
MAX_BYTES = 256 * 1024 * 1024


def start_check(check: PreflightCheck, kind: str = "preflight", edits: Edits | None = None) -> RunnerProcess:
    """Start the runner, with placeholders instead of keys. Raises JobRefused, OSError."""
    project, storage = runnable(check.project), storage_of(check)
    checkpoint, request = check.checkpoint, _request(check, edits or Edits())
    request = cast(
        Request,
        {
            **request,
            **permissions_of(project),
            "kind": kind,
            "job": str(check.pk),
            "folder": project.folder,
        },
    )
    if checkpoint and request["checkpoint"].get("stored"):
        storage.write_stored_copy(stored_bytes(checkpoint))
        request["checkpoint"]["source"] = storage.stored_copy
    storage.write_request(request)
    location = checkpoint.location if checkpoint else None
    engine = engine_name(location) if location else ""
    return start_runner(storage, project, is_preflight=True, engine=engine, location=location)


def _request(check: PreflightCheck, edits: Edits) -> Request:
    """The request of the run that is checked. Raises JobRefused."""
    if check.is_of_new_run:
        target = LocationTarget(path="", store_kind="sqlite" if check.store_kind == "sqlite" else "json")
        return request_for_run(target, check.entity, "", check.entry_point, {})
    checkpoint = check.checkpoint
    if checkpoint is None:
        raise JobRefused("preflight.checkpoint_removed")
    return request_for(checkpoint, Job.Kind.RESUME, checkpoint.recorded_branch, edits, [], check.entry_point)


def wait_for(check: PreflightCheck, runner: RunnerProcess) -> UserMessage | None:
    """Wait until the runner exits or has to be ended. Return why it has to be ended, or None."""
    end = time.monotonic() + settings.PREFLIGHT_SECONDS
    storage = storage_of(check)
    with suppress(LostRunner):
        while runner.poll() is None:
            if time.monotonic() > end:
                return UserMessage("preflight.timed_out", {"seconds": settings.PREFLIGHT_SECONDS})
            if storage.size() > MAX_BYTES:
                return UserMessage("preflight.output_too_long")
            time.sleep(POLL_SECONDS)
    return None


def store_report(check: PreflightCheck, runner: RunnerProcess, why_ended: UserMessage | None) -> None:
    """End the runner's processes. Store its report, or why there is none."""
    storage = storage_of(check)
    processes.end_all(storage, patience=1)
    data = {event["kind"]: event["data"] for event in _events(storage)}
    redact = redactor_of(check.project)
    report, ended = data.get("preflight", {}).get("report"), data.get("ended", {})
    if isinstance(report, dict):
        check.finish(_without_secrets(report, redact))
    elif why_ended:
        check.fail(why_ended)
    elif error := message_from(ended.get("error")):
        check.fail(redacted_message(error, redact))
    else:
        check.fail(outcome_of_exit(runner.returncode or 0).error)


def _without_secrets(report: Mapping[str, Any], redact: Redactor) -> dict[str, Any]:
    redacted: dict[str, Any] = redact(report)
    for effect, clean in zip(report.get("effects") or [], redacted.get("effects") or [], strict=True):
        # Accepted effects are compared by these hashes, which look like secrets.
        clean.update({name: str(effect.get(name) or "") for name in ("key", "digest", "given", "kind")})
        if field := str(effect.get("field") or ""):
            # The name of its field may say that a value is a secret.
            clean["name"] = str(redact({field.rpartition(".")[2]: clean["name"]}).popitem()[1])
    blocks = [block for found in report.get("blocks") or [] if (block := message_from(found))]
    return {**redacted, "blocks": [redacted_message(block, redact).as_data() for block in blocks]}


def _events(storage: JobStorage) -> Iterator[SpoolEvent]:
    offset, before = 0, -1
    while offset != before:
        before = offset
        events, offset = storage.read_events(offset)
        yield from events
