"""Checkpoints at a location -> rows, again and again. What is there is only ever read."""

from viewer.importing.importing import ImportSummary, import_location, import_one
from viewer.importing.locations import UnknownLocation, open_location
from viewer.importing.stored import stored_body, stored_bytes

__all__ = [
    "ImportSummary",
    "UnknownLocation",
    "import_location",
    "import_one",
    "open_location",
    "stored_body",
    "stored_bytes",
]
