"""Imported by a prewarmed process in place of an engine. Reads one variable and sets another."""

import os

colours: list[str | None] = []


def load() -> None:
    colours.append(os.environ.get("TINY_COLOUR"))
    os.environ["TINY_MADE"] = "by the engine"
