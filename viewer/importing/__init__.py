"""Import the checkpoints of a location into rows, incrementally. The location is only ever read."""

from viewer.importing.addresses import NotConfigured, is_indexed, server_variables
from viewer.importing.describing import describe_runs, find_ends
from viewer.importing.importing import (
    import_added,
    import_location,
    import_one,
    import_run,
    redact_stored,
)
from viewer.importing.location_list.file_urls import NotLocal, path_of
from viewer.importing.location_list.finding import find_stores, paths_like
from viewer.importing.location_list.locations import (
    UnknownLocation,
    addable_databases,
    newly_opened,
    open_location,
    overlaps,
)
from viewer.importing.location_list.moved import change_path
from viewer.importing.location_list.remove import WouldBeLost, removal_blocker, remove_location
from viewer.importing.location_list.write_targets import (
    WriteTarget,
    open_write_target,
    write_target_at,
    write_target_of,
)
from viewer.importing.progress import ImportCounts
from viewer.importing.reader import prepare_import
from viewer.importing.reconciling.called import called_runs
from viewer.importing.reconciling.runs import branch_status, update_statuses
from viewer.importing.scratch import import_scratch
from viewer.importing.stored_copies.project_secrets import secrets_for, stored_key
from viewer.importing.stored_copies.stored import (
    NotReadable,
    bodies_of,
    body_of,
    contents_at,
    shown_body,
    stored_body,
    stored_bytes,
    stored_contents,
)
from viewer.importing.stored_copies.unredacted_source import UnredactedSource, unredacted_source
from viewer.importing.updating import ImportSummary

__all__ = [
    "ImportCounts",
    "ImportSummary",
    "NotConfigured",
    "NotLocal",
    "NotReadable",
    "UnknownLocation",
    "UnredactedSource",
    "WouldBeLost",
    "WriteTarget",
    "addable_databases",
    "bodies_of",
    "body_of",
    "branch_status",
    "called_runs",
    "change_path",
    "contents_at",
    "describe_runs",
    "find_ends",
    "find_stores",
    "import_added",
    "import_location",
    "import_one",
    "import_run",
    "import_scratch",
    "is_indexed",
    "newly_opened",
    "open_location",
    "open_write_target",
    "overlaps",
    "path_of",
    "paths_like",
    "prepare_import",
    "redact_stored",
    "removal_blocker",
    "remove_location",
    "secrets_for",
    "server_variables",
    "shown_body",
    "stored_body",
    "stored_bytes",
    "stored_contents",
    "stored_key",
    "unredacted_source",
    "update_statuses",
    "write_target_at",
    "write_target_of",
]
