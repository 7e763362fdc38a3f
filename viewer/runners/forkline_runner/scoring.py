"""Calls a function of the project that scores a checkpoint."""

from __future__ import annotations

import json
import math
import os
import platform
from typing import TYPE_CHECKING

from forkline_runner import project
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request

# Characters of a score that is a text.
MAX_TEXT = 1_000


def run(request: Request, reporter: Reporter) -> str:
    """Return the score as JSON: a number, a boolean or a text. Raises Refused for anything else."""
    reporter.write(
        "started", pid=os.getpid(), engine="", engine_version="", python_version=platform.python_version()
    )
    project.enter(request["folder"])
    function = project.load(request["function"])
    if not callable(function):
        raise Refused("runner.score_not_callable", function=request["function"])
    score = function(request["contents"])
    # Numbers of other libraries, such as numpy's, are numbers as well.
    plain = score.item() if hasattr(score, "item") and not isinstance(score, int | float | str) else score
    is_number = isinstance(plain, int | float) and math.isfinite(plain)
    if not is_number and not isinstance(plain, str):
        raise Refused("runner.score_of_other_type", function=request["function"], type=type(score).__name__)
    return json.dumps(plain[:MAX_TEXT] if isinstance(plain, str) else plain)
