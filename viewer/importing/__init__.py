"""Checkpoints at a location -> rows, again and again. What is there is only ever read."""

from viewer.importing.file_urls import NotLocal, path_of
from viewer.importing.forgetting import WouldBeLost, forget_location, what_would_be_lost
from viewer.importing.importing import ImportSummary, import_location, import_one
from viewer.importing.locations import UnknownLocation, open_location
from viewer.importing.places import Place, open_place, place_at, place_of
from viewer.importing.reader import expect_import
from viewer.importing.stored import stored_body, stored_bytes

__all__ = [
    "ImportSummary",
    "NotLocal",
    "Place",
    "UnknownLocation",
    "WouldBeLost",
    "expect_import",
    "forget_location",
    "import_location",
    "import_one",
    "open_location",
    "open_place",
    "path_of",
    "place_at",
    "place_of",
    "stored_body",
    "stored_bytes",
    "what_would_be_lost",
]
