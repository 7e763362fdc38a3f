"""Python that crew.jsonc names."""

import os
from pathlib import Path
from typing import Any


def trace(words: str) -> None:
    """Leave a mark that this was called."""
    if "PRESS_TRACE" in os.environ:
        with Path(os.environ["PRESS_TRACE"]).open("a") as file:
            file.write(words + "\n")


def heard(output: Any) -> None:
    trace(f"callback {output.name}")


def is_said(output: Any) -> tuple[bool, Any]:
    trace("guardrail")
    return True, output.raw
