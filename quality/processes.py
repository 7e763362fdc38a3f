"""Runs modules one after the other, each in its own process."""

import subprocess
import sys
from collections.abc import Iterable


def run_modules(package: str, names: Iterable[str]) -> bool:
    """Run ``python -m package.name`` for each name, below its title. Return whether one of them failed."""
    failed = False
    for name in names:
        print(f"\n{name.replace('_', ' ')}", flush=True)
        failed |= bool(subprocess.call([sys.executable, "-m", f"{package}.{name}"]))
    return failed
