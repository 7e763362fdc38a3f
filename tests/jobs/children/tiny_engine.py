"""What a waiting process loads in the engine's place. It looks at a variable, and sets another."""

import os

colours: list[str | None] = []


def load() -> None:
    colours.append(os.environ.get("TINY_COLOUR"))
    os.environ["TINY_MADE"] = "by the engine"
