"""Starts the runner of a queued job, with its completed request. It outlives the process that starts it."""

import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, cast

from django.conf import settings
from django.db import transaction

from viewer.data_folder.locks import exclusive_transaction
from viewer.engines import engine_name, engine_of
from viewer.engines.protocol import kind_of
from viewer.engines.recorded_calls import RecordedCall, call_document
from viewer.engines.runner_protocol import LocationTarget, Permissions, Request, ScoredCall
from viewer.host.jobs import code, prewarm
from viewer.host.jobs.checkout import Checkout, check_out
from viewer.host.jobs.code import difference_digest
from viewer.host.jobs.environment import (
    engine_of_project,
    protected_paths,
    runnable,
    runner_environment,
    runner_module,
    runner_program,
    start_error,
    store_variables,
)
from viewer.host.jobs.events import clean_up, redactor_of
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.kept_keys import keep_keys, proxy_address
from viewer.host.jobs.pools import refusal_to_run
from viewer.host.jobs.processes import RunnerProcess
from viewer.host.jobs.sandbox import isolation_for, refuse_other_database, start_isolated
from viewer.host.jobs.savers import copy_from_saver, is_in_saver, sends_store, source_in, store_of_other_host
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.host.locations.sources import NotConfigured, unredacted_source
from viewer.host.permitted import refusal_of, refuse_source
from viewer.host_requests import HostRefusal, JobRefused
from viewer.models import Checkpoint, Job, Location, Project, RecordedCode
from viewer.postgresql import rows_identity
from viewer.records.audit import ActorKind, acting_for
from viewer.records.bodies import calls_in, copy_digest, copy_to_send, stored_bytes, stored_contents
from viewer.records.collections import whole_answer
from viewer.records.limits import reached_shared_limit
from viewer.records.permissions import may_start
from viewer.records.runner_requests import ACCEPTED, REPEATABLE_EDITS, store_kind_of
from viewer.redaction import MARKER

# The name of the transactions that claim jobs of people.
CLAIMS = "claims"

logger = logging.getLogger(__name__)


def request_of(job: Job, checkout: Checkout | None = None) -> Request:
    """The stored request, completed for the runner: job id, project folder, permissions, limits, real ids."""
    folder = job.project.folder if job.project else ""
    folder = str(checkout.of(folder)) if checkout else folder
    stored = {name: value for name, value in job.request.items() if name not in (REPEATABLE_EDITS, ACCEPTED)}
    request = cast(Request, {**stored, "job": str(job.id), "folder": folder})
    if job.project:
        request = cast(Request, {**request, **permissions_of(job.project, checkout)})
    if job.limits:
        request["options"] = {**request.get("options", {}), "limits": job.limits}
    # Paths are those of the rows, which ``refuse_outside`` checks: any machine can write the request.
    path, kind = job.location.path, store_kind_of(job.location)
    request["location"] = LocationTarget(path=path, store_kind=kind)
    if job.kind == Job.Kind.REPLAY:
        return request
    if job.checkpoint and "checkpoint" in request and not is_stored(request):
        request["checkpoint"] = {**request["checkpoint"], "source": job.checkpoint.source}
    if job.checkpoint and MARKER in job.checkpoint.source_key and not is_stored(request):
        # The row's id or path was redacted. Only the location has the real one.
        real = unredacted_source(job.checkpoint)
        request["checkpoint"] = {**request["checkpoint"], "id": real.checkpoint_id, "source": real.source}
        if request["kind"] == "resume":
            request["branch"] = real.branch or request["branch"]
    if job.kind == Job.Kind.SCORE and job.checkpoint:
        call = request.get("scored_call")
        request["contents"] = _call_to_score(job, call) if call else _contents_to_score(job.checkpoint)
        return request
    if is_stored(request):
        source = storage_of(job).stored_copy
        if job.is_on_other_host and job.checkpoint and sends_store(job.checkpoint):
            source = source_in(source, job.checkpoint)
        request["checkpoint"] = {**request["checkpoint"], "source": source}
    return request


def _contents_to_score(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted contents as plain values, as ``forkline info --json`` prints them."""
    contents = stored_contents(checkpoint)
    return {
        "id": checkpoint.checkpoint_id,
        "branch": checkpoint.recorded_branch,
        "trigger": checkpoint.trigger,
        "tokens": checkpoint.tokens,
        **engine_of(contents).info(contents),
    }


def _call_to_score(job: Job, scored: ScoredCall) -> dict[str, Any]:
    """The redacted call as plain values, as ``forkline call --json`` prints it. Raises JobRefused.

    With the id and the branch of its checkpoint, and the answer of the job that replayed it, if there is one.
    """
    checkpoint = job.checkpoint
    assert checkpoint is not None
    calls = calls_in(stored_contents(checkpoint))
    call = next((one for one in calls if one.name == scored["name"]), None)
    if call and scored["job"]:
        replay = Job.objects.filter(pk=scored["job"], checkpoint=checkpoint).first()
        answer = whole_answer(replay) if replay else None
        model = ", ".join(replay.request["replay"]["models"]) if replay else ""
        call = RecordedCall(
            call.id,
            model,
            call.conversation,
            call.sent,
            answer,
            call.tools,
            call.parameters,
            agent=call.agent,
        )
    if call is None or call.answer is None:
        raise JobRefused("score.no_answer")
    place = {"checkpoint": checkpoint.checkpoint_id, "branch": checkpoint.recorded_branch}
    return {**place, **call_document(call, is_whole=True)}


def permissions_of(project: Project, checkout: Checkout | None = None) -> Permissions:
    """What a runner of this project is currently allowed to do."""
    return Permissions(
        protected=protected_paths(project, checkout),
        accepted_effects=sorted(project.accepted_effects.keys()),
        entry_points=list(project.entry_points),
    )


def is_stored(request: Mapping[str, Any]) -> bool:
    """Whether the run starts from the stored copy of a pruned checkpoint."""
    return bool(request.get("checkpoint", {}).get("stored"))


def launch(job: Job) -> RunnerProcess | None:
    """Claim the job and start its runner.

    Returns None if another process has claimed the job, if it was cancelled, if it cannot start, or if it
    was started before. A job that cannot start fails with the reason. The caller holds the job's follower
    lock.
    """
    was_started = storage_of(job).was_started()
    if not was_started and (refusal := refusal_to_run(job.location)):
        logger.warning("job %s is left to other hosts: %s", job.pk, refusal)
        return None
    if not claim(job, was_started=was_started):
        return None
    if was_started:
        # The row is older than the run: a standby without the last commits took over, or a backup was
        # restored. So the caller follows the run, or records that it was interrupted.
        logger.warning("job %s was started before its row says so, and is followed", job.pk)
        return None
    try:
        with acting_for(actor_of(job)):
            return _started_runner(job)
    except (HostRefusal, OSError) as error:
        job.end(Job.Status.FAILED, error=start_error(error))
        # The request contains the user's input. Nothing of the project ran, so the log has no secret of it.
        clean_up(job, redactor_of(None))
        return None


def claim(job: Job, *, was_started: bool = False) -> bool:
    """Claim a queued job for this process, unless it waits for a limit or an admin. Return whether it did.

    Of two jobs that wait for the last run of a quota, one is claimed. One that ``was_started`` waits for
    nothing.
    """
    # In one transaction, which a pooler sends to one server.
    with exclusive_transaction(CLAIMS) if job.requester_key else transaction.atomic():
        if was_started:
            return job.claim()
        if not may_start(job) or reached_shared_limit(job):
            return False
        return job.claim(rows_identity() if job.queued_in else "")


def actor_of(job: Job) -> dict[str, Any]:
    """Return the person whose rights a job has, or a terminal, as its actor: other hosts check them."""
    if job.acts_for is None:
        return {"kind": ActorKind.TERMINAL, "name": ""}
    return {"kind": ActorKind.USER, "name": job.acts_for.get_username(), "user": job.acts_for.pk}


def _started_runner(job: Job) -> RunnerProcess:
    """Check a claimed job, and start its runner. Raises HostRefusal, OSError."""
    project = runnable(job.project)
    refuse_outside(job)
    refuse_continued(job)
    refuse_other_code(job, project)
    checkout = write_files(job, project)
    code.record(job, project, checkout)
    if project.kept_keys:
        # First, so that whoever follows the run after a crash starts the key proxy again.
        job.record_kept_keys(project.kept_keys)
    runner, in_force = start_runner(
        storage_of(job),
        project,
        engine=engine_name(job.location),
        location=job.location,
        checkout=checkout,
    )
    job.record_process(runner.pid, in_force)
    return runner


def refuse_outside(job: Job) -> None:
    """Raise JobRefused if the run would read or write a path that this machine must not open."""
    if job.location.is_local and (refusal := refusal_of(job.location.path)):
        raise JobRefused(refusal)
    source = job.request.get("checkpoint") or {}
    if is_stored(job.request) or not source.get("source"):
        return
    if job.checkpoint is None:
        raise JobRefused("preflight.checkpoint_removed")
    refuse_source(job.checkpoint)


def refuse_continued(job: Job) -> None:
    """Raise JobRefused if the run has grown since a person chose to resume its last checkpoint.

    The job may have waited for hours, and its row may be older than the run.
    """
    checkpoint = job.checkpoint
    if job.kind != Job.Kind.RESUME or checkpoint is None:
        return
    if not kind_of(engine_of(checkpoint.location), checkpoint.entity).resumes_last_only:
        return
    if not checkpoint.is_scratch:
        summaries = import_location(checkpoint.location), import_run(checkpoint.run)
        if error := next((one.read_error for one in summaries if one.read_error), None):
            raise JobRefused(error)
    current = Checkpoint.objects.select_related("run").filter(pk=checkpoint.pk).first()
    if current is None or not current.is_last:
        raise JobRefused("job.thread_continued")


def refuse_other_code(job: Job, project: Project) -> None:
    """Raise JobRefused if a fork of another host's checkpoint may not run with the code that is here now.

    Its row may have been written by a process that was broken into, so everything is compared again.
    """
    checkpoint, location = job.checkpoint, job.location
    if checkpoint is None or not job.is_on_other_host:
        return
    target = job.request.get("location") or {}
    is_as_stored = (target.get("path"), target.get("store_kind")) == (location.path, location.store_kind)
    is_known = job.kind == Job.Kind.FORK and is_stored(job.request) and location.project_id == project.pk
    kind, options = kind_of(engine_of(location), checkpoint.entity), job.request.get("options") or {}
    # Never into a thread that is there.
    is_known &= options.get("into", "") == kind.target_on_other_host
    source = checkpoint.location.project
    if not (is_known and is_as_stored and source and source.name == project.name):
        raise JobRefused("job.other_host")
    accepted, recorded = _accepted(job), RecordedCode.of(checkpoint, project)
    if job.commit:
        is_accepted = recorded is not None and job.commit == recorded.commit
    else:
        is_accepted = difference_digest(recorded, project) in ("", accepted.get("code"))
    if not is_accepted:
        raise JobRefused("other_host.code_differs")


def _accepted(job: Job) -> Mapping[str, Any]:
    """What the start on this host accepted."""
    found = job.request.get(ACCEPTED)
    return found if isinstance(found, dict) else {}


def write_files(job: Job, project: Project) -> Checkout | None:
    """Write what the runner reads. Return the checkout of the commit that the job runs; None without one.

    Raises JobRefused, OSError.
    """
    storage, checkout = storage_of(job), None
    storage.create()
    if commit := job.commit:
        checkout = check_out(project, commit, storage.checkout)
    request = request_of(job, checkout)
    if job.kind == Job.Kind.RESUME and job.checkpoint and is_in_saver(job.checkpoint):
        raise JobRefused("saver.no_runs")
    if job.kind == Job.Kind.FORK:
        copy_from_saver(storage, request, job.checkpoint)
    # Its secrets are redacted for as long as the run is followed.
    storage.write_request({**request, "environment_file": project.environment_file})
    if is_stored(job.request):
        if job.checkpoint is None:
            raise JobRefused("job.stored_copy_missing")
        if not job.is_on_other_host:
            copy = stored_bytes(job.checkpoint)
        else:
            kind = kind_of(engine_of(job.checkpoint.location), job.checkpoint.entity)
            copy = copy_to_send(job.checkpoint, kind)
            if copy_digest(copy) != _accepted(job).get("copy"):
                raise JobRefused("other_host.copy_changed")
            if kind.sends_store:
                copy = store_of_other_host(job.checkpoint)
        storage.write_stored_copy(copy)
    return checkout


def start_runner(
    storage: JobStorage,
    project: Project,
    *,
    is_preflight: bool = False,
    engine: str = "",
    location: Location | None = None,
    checkout: Checkout | None = None,
) -> tuple[RunnerProcess, dict[str, Any]]:
    """Start a runner in a new session, holding the runner lock. Raises JobRefused, OSError.

    Returns what of the project's isolation is in force as well. Without isolation, forks a prewarmed process
    if there is one, else starts the project's interpreter. The working directory is the project's folder,
    because runs read knowledge and write files relative to it, or that folder in the ``checkout``, which no
    prewarmed process knows. Without ``engine``, the engine of the project's locations is used. It is given
    the connection of a ``location`` that is a database.
    """
    engine = engine or engine_of_project(project)
    isolation = isolation_for(project)
    environment = runner_environment(storage.name, project, checkout, is_preflight=is_preflight)
    try:
        refuse_other_database(isolation, location)
        environment |= store_variables(location)
    except NotConfigured as error:
        raise JobRefused(error.message) from None
    lock = storage.acquire_runner_lock()
    if lock is None:
        raise JobRefused("job.already_running")
    with ExitStack() as opened:
        opened.callback(os.close, lock)
        log = storage.open_log()
        opened.callback(os.close, log)
        key_proxy = None
        if not is_preflight and (kept := keep_keys(storage, project, environment)):
            environment |= kept
            key_proxy = proxy_address()
        program = [project.interpreter, str(runner_program(engine))]
        command = [*program, storage.runner_argument, runner_module(engine)]
        folder = str(checkout.of(project.folder)) if checkout else project.folder
        if not isolation.is_off:
            return start_isolated(
                isolation, project, storage, command, folder, environment, log, lock, key_proxy
            )
        if checkout:
            return _started(command, folder, environment, log, lock), {}
        forked = prewarm.fork_runner(storage.runner_argument, project, engine, environment, lock, log)
        if forked is not None:
            return forked, {}
        prewarm.request_prewarm(project, prewarm.SECONDS_AFTER_A_COLD_START)
        return _started(command, folder, environment, log, lock), {}


def _started(
    command: Sequence[str], folder: str, environment: Mapping[str, str], log: int, lock: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        umask=settings.USERS_UMASK,
        pass_fds=(lock,),
    )
