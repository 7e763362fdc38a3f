"""What a person chose for a run's checkpoints: the events that write one, and how many stay."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from crewai.state.checkpoint_config import CheckpointEventType
from crewai.state.runtime import RuntimeState

from forkline_runner import pruning
from forkline_runner.messages import gettext_noop as _
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import CheckpointSettings, Request

# The engine's own word for all of them.
EVERY = "*"


def chosen_events(request: Request) -> list[str]:
    """The events that the person chose; none where the project's or the checkpoint's own are to hold.

    Raises Refused for one that this version of the engine does not know.
    """
    events = _chosen(request).get("events") or []
    unknown = [event for event in events if event not in {EVERY, *get_args(CheckpointEventType)}]
    if unknown:
        raise Refused(
            _(
                "The project's version of CrewAI writes no checkpoints at these events, which it "
                "does not know: %(unknown)s. Choose others."
            ),
            unknown=", ".join(unknown),
        )
    return list(events)


def prune(request: Request, reporter: Reporter) -> None:
    """Have only the newest of the checkpoints that this very run writes stay, where a number was chosen.

    The engine's own pruning deletes whatever else stands in the folder or on the branch: it is never used.
    """
    most = _chosen(request).get("most")
    if not most:
        return
    kept: list[pruning.Written] = []
    chain = RuntimeState._chain_lineage

    def chained(self: Any, provider: Any, location: str) -> None:
        chain(self, provider, location)
        _keep(kept, most, str(location), request, reporter)

    RuntimeState._chain_lineage = chained


def _keep(kept: list[pruning.Written], most: int, place: str, request: Request, reporter: Reporter) -> None:
    """Take in what was written at this place, and delete the oldest that are more than ``most``."""
    provider = request["location"]["provider"]
    try:
        if _stands_at(place, request):
            kept.append(pruning.written(place, provider))
        while len(kept) > most:
            if not pruning.delete(kept.pop(0), provider):
                reporter.warn(_("Where this run wrote a checkpoint, something else stands by now: it stays."))
    except (OSError, sqlite3.Error) as error:
        reporter.warn(_("An older checkpoint of this run could not be removed: %(error)s"), error=error)


def _chosen(request: Request) -> CheckpointSettings:
    return (request.get("options") or {}).get("checkpoints") or {}


def _stands_at(written: str, request: Request) -> bool:
    """Whether it was written at the run's own location: a crew in a flow may have one of its own."""
    place = request["location"]["path"]
    if request["location"]["provider"] == "sqlite":
        return written.rpartition("#")[0] == place
    return Path(written).is_relative_to(place)
