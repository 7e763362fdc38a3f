"""Checkpoints at a location -> rows, again and again. What is there is only ever read."""

from viewer.importing.file_urls import NotLocal, path_of
from viewer.importing.importing import ImportSummary, hide_stored, import_location, import_one
from viewer.importing.known_secrets import key_of
from viewer.importing.locations import UnknownLocation, open_location
from viewer.importing.reader import expect_import
from viewer.importing.remove import WouldBeLost, forget_location, what_would_be_lost
from viewer.importing.stored import stored_body, stored_bytes
from viewer.importing.unredacted_names import RealPlace, real_place
from viewer.importing.write_targets import Place, open_place, place_at, place_of

__all__ = [
    "ImportSummary",
    "NotLocal",
    "Place",
    "RealPlace",
    "UnknownLocation",
    "WouldBeLost",
    "expect_import",
    "forget_location",
    "hide_stored",
    "import_location",
    "import_one",
    "key_of",
    "open_location",
    "open_place",
    "path_of",
    "place_at",
    "place_of",
    "real_place",
    "stored_body",
    "stored_bytes",
    "what_would_be_lost",
]
