"""Refuse to write to a location that was renamed or replaced since the run began to write there.

Patches: checkpoint of crewai.state.provider.json_provider.JsonProvider,
    crewai.state.provider.sqlite_provider.SqliteProvider and Forkline's OldSqliteProvider
Versions: 1.14.2 and newer
Why: The engine would create the location again at the old path.
Test: tests/runners/stores/test_failed_writes.py::test_a_location_renamed_during_a_run_is_not_created_again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider

from forkline_crewai.restore import old_stores
from forkline_runner.own_checkpoints import Pins

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request


def apply(request: Request) -> None:
    """Pin the request's location now, and each other location when it is first written to."""
    pins = Pins()
    pins.hold(request["location"]["path"], request["location"]["store_kind"] == "json")
    providers: tuple[Any, ...] = (JsonProvider, SqliteProvider, old_stores.OldSqliteProvider)
    for provider in providers:
        if "checkpoint" in vars(provider):
            provider.checkpoint = _pinned(provider.checkpoint, pins, provider is JsonProvider)


def _pinned(write: Callable[..., str], pins: Pins, is_folder: bool) -> Callable[..., str]:
    def write_unless_moved(self: Any, data: str, location: str, **named: Any) -> str:
        pins.check(location)
        path = write(self, data, location, **named)
        pins.hold(location, is_folder)
        # If it was moved between the check and the write, the engine has created it again: refuse that too.
        pins.check(location)
        return path

    return write_unless_moved
