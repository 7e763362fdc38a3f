"""The version of the engine in the project's interpreter."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forkline_runner import project
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


def report_start(
    reporter: Reporter, packages: Sequence[str], oldest: str, *, label: str, missing: str, too_old: str
) -> str:
    """Report the versions, and return that of the engine, which is the first of the packages.

    Raises Refused with the code ``missing`` or ``too_old`` if a package is missing, or the engine is older
    than ``oldest``.
    """
    try:
        version, *_ = [importlib.metadata.version(package) for package in packages]
    except importlib.metadata.PackageNotFoundError as error:
        raise Refused(missing, package=error.name, python=sys.executable) from error
    if project.is_older(version, oldest):
        raise Refused(too_old, version=version, oldest=oldest, python=sys.executable)
    reporter.write(
        "started",
        pid=os.getpid(),
        engine=label,
        engine_version=version,
        python_version=platform.python_version(),
    )
    return version
