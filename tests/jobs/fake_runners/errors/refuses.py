"""Refuses to run, as the real runner does, with a secret in the reason."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

from forkline_runner.reporting import Refused, Reporter

why = Refused("crewai.model_unusable", model="100%(x)s", kind="ValueError", error=Path("why.txt").read_text())
reporter = Reporter(tiny.begin())
reporter.warn("crewai.cache_failed", kind="OSError", error=Path("why.txt").read_text())
reporter.end("failed", error=why.message)
