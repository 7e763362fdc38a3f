"""A person's checkpoint settings for a run: the events that trigger a checkpoint, and how many to keep."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from crewai.state.checkpoint_config import CheckpointEventType

from forkline_crewai.patches.checkpoints import pruned_checkpoints
from forkline_runner import own_checkpoints
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import CheckpointSettings, Request


# The engine's name for all events.
EVERY = "*"


def chosen_events(request: Request) -> list[str]:
    """Return the events that a person chose; an empty list if those of the project or checkpoint apply.

    Raises Refused for an event that this version of the engine does not know.
    """
    events = _chosen(request).get("events") or []
    unknown = [event for event in events if event not in {EVERY, *get_args(CheckpointEventType)}]
    if unknown:
        raise Refused(
            "crewai.unknown_checkpoint_events",
            unknown=", ".join(unknown),
        )
    return list(events)


def keep_latest(request: Request, reporter: Reporter) -> None:
    """Keep only the latest checkpoints that this run writes, if a person chose how many."""
    latest = _chosen(request).get("max_checkpoints")
    if latest:
        kept: list[own_checkpoints.Written] = []
        pruned_checkpoints.apply(lambda path: _prune(kept, latest, path, request, reporter))


def _prune(
    kept: list[own_checkpoints.Written], count: int, path: str, request: Request, reporter: Reporter
) -> None:
    """Add the checkpoint at ``path`` to ``kept``, and delete the oldest ones beyond ``count``.

    ``path`` is a file, or ``store.db#id`` in SQLite.
    """
    is_sqlite = request["location"]["store_kind"] == "sqlite"
    store_kind: Literal["sqlite", "json"] = "sqlite" if is_sqlite else "json"
    try:
        if _is_at_location(path, request):
            kept.append(own_checkpoints.written(path, store_kind))
        while len(kept) > count:
            if not own_checkpoints.delete(kept.pop(0), store_kind):
                reporter.warn("crewai.checkpoint_replaced")
    except (OSError, sqlite3.Error) as error:
        reporter.warn("crewai.pruning_failed", error=error)


def _chosen(request: Request) -> CheckpointSettings:
    return (request.get("options") or {}).get("checkpoints") or {}


def _is_at_location(path: str, request: Request) -> bool:
    """Return whether a checkpoint is in the run's location: a crew in a flow may write to another one."""
    location = request["location"]["path"]
    if request["location"]["store_kind"] == "sqlite":
        return path.rpartition("#")[0] == location
    return Path(path).is_relative_to(location)
