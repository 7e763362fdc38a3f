"""What a person chose for a run's checkpoints: the events that write one, and how many are kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from crewai.state.checkpoint_config import CheckpointEventType

from forkline_crewai.patches.checkpoints import pruned_checkpoints
from forkline_runner import pruning
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.request import CheckpointSettings, Request

# The engine's name for all events.
EVERY = "*"


def chosen_events(request: Request) -> list[str]:
    """Return the events that the person chose; none if those of the project or the checkpoint apply.

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
    """Keep only the latest checkpoints that this run writes, if a number was chosen."""
    latest = _chosen(request).get("max_checkpoints")
    if latest:
        kept: list[pruning.Written] = []
        pruned_checkpoints.apply(lambda place: _prune(kept, latest, place, request, reporter))


def _prune(kept: list[pruning.Written], count: int, place: str, request: Request, reporter: Reporter) -> None:
    """Add the checkpoint at ``place`` to ``kept``, and delete the oldest if there are more than ``count``."""
    is_sqlite = request["location"]["store_kind"] == "sqlite"
    store_kind: Literal["sqlite", "json"] = "sqlite" if is_sqlite else "json"
    try:
        if _is_at_location(place, request):
            kept.append(pruning.written(place, store_kind))
        while len(kept) > count:
            if not pruning.delete(kept.pop(0), store_kind):
                reporter.warn("crewai.checkpoint_replaced")
    except (OSError, sqlite3.Error) as error:
        reporter.warn("crewai.pruning_failed", error=error)


def _chosen(request: Request) -> CheckpointSettings:
    return (request.get("options") or {}).get("checkpoints") or {}


def _is_at_location(place: str, request: Request) -> bool:
    """Return whether it was written to the run's location: a crew in a flow may have another one."""
    location = request["location"]["path"]
    if request["location"]["store_kind"] == "sqlite":
        return place.rpartition("#")[0] == location
    return Path(place).is_relative_to(location)
