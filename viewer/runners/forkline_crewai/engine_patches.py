"""Applies the patches that every run needs, in the order in which they wrap each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from forkline_crewai.patches import failed_async_tasks, named_functions, reported_events
from forkline_crewai.patches.checkpoints import (
    awaited_writes,
    pinned_locations,
    reported_checkpoints,
    retried_serialization,
    serial_writes,
)
from forkline_crewai.patches.questions import (
    console_feedback,
    feedback_outcomes,
    flow_input,
    output_review,
    pausing_providers,
)
from forkline_crewai.report import checkpointing, progress

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def apply_all(request: Request, reporter: Reporter, positions: Mapping[str, int]) -> None:
    """Patch the engine for one run. ``positions`` maps task ids to their positions, counted from 1."""
    named_functions.apply(reporter.warn)
    retried_serialization.apply()
    pinned_locations.apply(request)
    serial_writes.apply(reporter)
    reported_checkpoints.apply(reporter)
    awaited_writes.apply()
    failed_async_tasks.apply()
    output_review.apply(reporter.questions)
    console_feedback.apply(reporter.questions)
    feedback_outcomes.apply()
    pausing_providers.apply(reporter.questions)
    flow_input.apply(reporter.questions)
    checkpointing.keep_latest(request, reporter)
    reported_events.apply(partial(progress.report, reporter, positions))
