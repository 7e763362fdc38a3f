"""Preflight checks: what a run would restore, need and execute, found without running anything.

A check is made by a runner that the server starts. It does not occupy a worker slot. The runner's
``preflight`` event holds the report:

==================  =====================================================================================
python_version      of the project's interpreter; also engine_version, and sqlite_version if it matters
checkpoint_version  the engine version that wrote the checkpoint
effects             kind, name, detail, digest, tool, field, given, key: what the checkpoint adds to the
                    project's own code (forkline_runner/loaded_code/effects.py)
is_complete         whether all effects were accepted: only then is anything imported and the rest known
imports             the project's modules that restoring or the entry point imports
components          what, name, task (position), agent (role), fate: restored, project or lost
questions           kind (task, agent), saved (its id), position, title, reason, choices
blocks              why the run cannot start, as messages (viewer/messages/message.py)
notes               what (such as unwritten), detail
next                the nodes that a graph runs next; also nodes (all of them)
next_by_node        for kind ``next``: node, next, after (edited channels as texts) and error
channels            name, type (of a JSON schema) and reducer (empty if none) of a graph's channels
configurable        name, type and default of each value that a graph's config has; also context
graph               of a new run's check: the nodes and edges of a compiled graph. A node inside another
                    graph is named ``outer/inner``; an edge is [from, to, is conditional, label]
==================  =====================================================================================
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from viewer.engines import engine_of
from viewer.engines.planning.plan import EditRefused, Edits
from viewer.engines.protocol import kind_of
from viewer.jobs.execution.starting.start import JobRefused
from viewer.jobs.preflight.fingerprints import fingerprint_of
from viewer.jobs.preflight.run import start_in_background
from viewer.jobs.preflight.runner import start_check, store_report, wait_for
from viewer.jobs.storage import storage_of
from viewer.messages.message import message_from, plain_text
from viewer.models import Checkpoint, PreflightCheck, Project


def preflight_checkpoint(
    checkpoint: Checkpoint,
    project: Project,
    entry_point: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a run from this checkpoint: a stored one that is up to date, or one that starts now.

    Does not wait for the check. With ``again``, a failed check is repeated. With ``only_stored``, no check is
    started, and an unsaved one is returned if there is none.
    """
    subject = {"checkpoint": checkpoint, "project": project, "entry_point": entry_point}
    return _check_for(subject, fingerprint_of(checkpoint, project, entry_point), again, only_stored)


def preflight_new_run(
    project: Project,
    entry_point: str,
    entity: str,
    store_kind: str,
    *,
    again: bool = False,
    only_stored: bool = False,
) -> PreflightCheck:
    """The check of a new run, as ``preflight_checkpoint`` returns it.

    ``entity`` is the name of a root kind; ``store_kind`` is the kind of the write target, json or sqlite.
    """
    subject = {"project": project, "entry_point": entry_point, "entity": entity, "store_kind": store_kind}
    fingerprint = fingerprint_of(None, project, entry_point, entity, store_kind)
    return _check_for(subject, fingerprint, again, only_stored)


def _check_for(
    subject: Mapping[str, Any], fingerprint: str, again: bool, only_stored: bool
) -> PreflightCheck:
    with transaction.atomic():
        check = PreflightCheck.objects.filter(fingerprint=fingerprint).first()
        if only_stored:
            return check or PreflightCheck(
                **subject, fingerprint=fingerprint, status=PreflightCheck.Status.UNCHECKED
            )
        if check is None:
            # Earlier checks of this subject are outdated.
            PreflightCheck.objects.ended().filter(**subject).delete()
            check = PreflightCheck.objects.create(**subject, fingerprint=fingerprint)
        elif check.is_outdated or (again and check.status == PreflightCheck.Status.FAILED):
            check.reset()
        if not check.has_ended:
            transaction.on_commit(lambda: start_in_background(check))
    return check


def unaccepted_effects(checkpoint: Checkpoint, project: Project, entry_point: str) -> list[dict[str, Any]]:
    """The effects of this checkpoint that nobody has accepted for the project. Waits for the runner.

    The runner imports nothing. Raises JobRefused if the effects cannot be listed.
    """
    kind = kind_of(engine_of(checkpoint.location), checkpoint.entity)
    if not kind.always_has_effects and (entry_point or kind.needs_entry_point):
        return []
    return _asked(checkpoint, project, entry_point, "effects").new_effects


def ask_next_units(
    checkpoint: Checkpoint, project: Project, entry_point: str, edits: Edits
) -> list[dict[str, Any]]:
    """What would run next after these edits, for each unit (``next_by_node`` of the report).

    Waits for the runner, which runs no unit. Nothing is stored. Raises JobRefused.
    """
    report = _asked(checkpoint, project, entry_point, "next", edits).report
    for block in report.get("blocks") or []:
        raise JobRefused(message_from(block) or plain_text(""))
    if not report.get("is_complete", True):
        raise JobRefused("preflight.effects_first")
    return list(report.get("next_by_node") or [])


def _asked(
    checkpoint: Checkpoint, project: Project, entry_point: str, kind: str, edits: Edits | None = None
) -> PreflightCheck:
    """Run a check without storing it. Return it once its runner has ended. Raises JobRefused."""
    check = PreflightCheck(checkpoint=checkpoint, project=project, entry_point=entry_point)
    storage = storage_of(check)
    storage.create()
    try:
        with storage.following():
            runner = start_check(check, kind, edits)
            store_report(check, runner, wait_for(check, runner))
    except EditRefused as refused:
        raise JobRefused(refused.message) from refused
    except OSError as error:
        raise JobRefused(plain_text(error)) from error
    finally:
        storage.delete()
    if not check.is_done:
        raise JobRefused(check.error or plain_text(""))
    return check
