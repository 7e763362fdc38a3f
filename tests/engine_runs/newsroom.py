"""Runs of the demo's crew, flow and agent, as a person starts them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from offline_model.server import OfflineModel

from tests.engine_runs.prewarmed import WarmPython, launched
from tests.engine_runs.runs import ROOT_CERTIFICATE

NEWSROOM = Path(__file__).resolve().parents[1] / "demo/run_newsroom.py"
# The arguments of the demo's program, and where it writes.
DEMO_RUNS = {"article": "article", "article.db": "article", "digest": "digest", "interview": "interview"}
FAKE_KEY = "sk-demo-0123456789abcdefghijklmnopqrstuvwxyz0123"


def _variables(model: OfflineModel) -> dict[str, str]:
    """Return the environment of the demo's program."""
    return {
        "OPENAI_API_KEY": FAKE_KEY,
        "OPENAI_BASE_URL": model.url,
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "SSL_CERT_FILE": str(ROOT_CERTIFICATE),
    }


def write_stores(folder: Path, python: WarmPython) -> None:
    """Run the demo's crew, flow and agent once per store, two at a time."""
    model = OfflineModel()
    model.start()
    surroundings = {**os.environ, **_variables(model)}

    def write(store: str, what: str) -> None:
        log = folder / f"{store}.log"
        arguments = [what, "--checkpoints", store]
        assert launched(python, NEWSROOM, arguments, folder, surroundings, log).wait(300) == 0, (
            log.read_text()
        )

    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(write, DEMO_RUNS.keys(), DEMO_RUNS.values()):
            pass
    model.stop()
