"""The common parts of the pages for launches from a checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewer.engines import engine_of
from viewer.engines.planning.schema import NO_SCHEMA, Schema
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.launch.preflight import PreflightForm
from viewer.forms.models import ModelsForm
from viewer.importing import stored_contents
from viewer.launching.preview.preflight import schema_at
from viewer.launching.requests.requests import CheckpointRequest
from viewer.models import Checkpoint, Project
from viewer.presentation.launch.checkpoints_part import checkpoints_part
from viewer.presentation.launch.option_parts import OptionParts, option_parts
from viewer.presentation.launch.page import LaunchPage, Started, Submission
from viewer.presentation.launch.run_settings_part import run_settings_part

# Reading a larger checkpoint only for the cost would take too long.
MAX_BYTES_FOR_COST = 4 * 1024 * 1024


class CheckpointPage(LaunchPage[Started]):
    """The page of a launch from a checkpoint."""

    @property
    def request(self) -> CheckpointRequest:
        """The request that the page shows."""
        raise NotImplementedError

    @property
    def checkpoint(self) -> Checkpoint:
        return self.request.checkpoint

    @property
    def project(self) -> Project | None:
        return self.request.project

    @property
    def contents(self) -> Contents:
        return self.request.contents


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The checkpoint from which something starts, and its project."""

    checkpoint: Checkpoint
    contents: Contents
    project: Project | None

    @property
    def folder(self) -> Path | None:
        return Path(self.project.folder) if self.project else None

    @property
    def entry_points(self) -> list[str]:
        return list(self.project.entry_points) if self.project else []

    @property
    def proposed(self) -> dict[str, str]:
        """The proposed entry point, by field."""
        entry_point, contents = "", self.contents
        if self.folder:
            engine = engine_of(contents)
            entry_point = engine.entry_point_for(self.folder, self.entry_points, contents.kind, contents.name)
        return {"entry_point": entry_point}

    def schema(self, entry_point: str) -> Schema:
        """The schema of a run, from a stored preflight check with this entry point, if there is one."""
        return schema_at(self.checkpoint, self.contents, self.project, entry_point)

    def options(self, models: ModelsForm, data: Any, schema: Schema = NO_SCHEMA) -> OptionParts:
        """The option parts of the page, in their initial state if ``data`` is None."""
        contents = self.contents
        kind = kind_of(engine_of(contents), contents.kind)
        events = contents.checkpoint_events
        part = checkpoints_part(engine_of(contents), self.project, contents.kind, events, data)
        return option_parts(models, part, data, run_settings_part(kind, schema, data))

    def request_values(
        self, options: OptionParts, preflight: PreflightForm, submission: Submission
    ) -> dict[str, Any]:
        """The fields that every request from a checkpoint has."""
        return {
            "checkpoint": self.checkpoint,
            "contents": self.contents,
            "furthest": furthest(self.checkpoint),
            "project": self.project,
            "folder": self.folder,
            **options.request_values,
            "answers": preflight.answers,
            "requested_by": submission.user,
            "seen_plan": None if submission.data is None else submission.data.get("shown"),
        }


def source_at(checkpoint: Checkpoint) -> StartingPoint:
    """The checkpoint with its contents and the project of its location."""
    return StartingPoint(checkpoint, stored_contents(checkpoint), checkpoint.location.project)


def furthest(checkpoint: Checkpoint) -> Contents | None:
    """The contents of the run's furthest checkpoint; None if it is this one."""
    rows = checkpoint.run.checkpoints.filter(size__lte=MAX_BYTES_FOR_COST).select_related("stored_copy")
    readable = rows.exclude(state=Checkpoint.State.NO_COPY)
    row = readable.order_by("-units_done", "-event_count").first()
    if row is None or row.pk == checkpoint.pk:
        return None
    return stored_contents(row)
