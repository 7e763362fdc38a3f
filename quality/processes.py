"""Runs modules one after the other, each in its own process."""

import subprocess
import sys
from collections.abc import Iterable


def run_modules(package: str, names: Iterable[str]) -> bool:
    """Run ``python -m package.name`` for each name. Return whether one of them failed."""
    codes = [subprocess.call([sys.executable, "-m", f"{package}.{name}"]) for name in names]
    return any(codes)
