"""Nothing outside an engine and its runner mentions what only that engine has: crews, tasks, flows."""

import re
from pathlib import Path

from viewer.engines import ENGINES

ROOT = Path(__file__).resolve().parents[2]
OWN = (
    "viewer/engines/crewai/",
    "viewer/runners/forkline_crewai/",
    "viewer/runners/crewai_runner.py",
    # LangGraph calls the calls of nodes tasks.
    "viewer/engines/langgraph/",
    "viewer/runners/forkline_langgraph/",
    "viewer/runners/langgraph_runner.py",
    "viewer/messages/catalog/langgraph",
    "viewer/messages/catalog/runner_langgraph",
    "viewer/migrations/",
    # The texts of its messages.
    "viewer/messages/catalog/crewai_",
    "viewer/messages/catalog/runner_crewai",
    "templates/engines/crewai/",
    "templates/engines/langgraph/",
)
MENTION = re.compile(
    r"crew|\btasks?\b|\btask_|_tasks?\b|\bflows?\b|\bflow_|_flow\b|\bFlow\b|FLOW_", re.IGNORECASE
)
# Lines that may mention them, by file: how many at most, and why. The numbers only go down.
ASYNCIO = "asyncio and Django call their own units of work tasks"
QUEUE = "the queue is Django's tasks framework"
OPTION = "an option or its help, which scripts use by this name"
STORED = "a name that rows, requests or spools of earlier versions hold"
WORDS = "a word among many by which names of secrets are judged"
REGISTRY = "the registry and its default name the engine"
ALLOWED: dict[str, tuple[int, str]] = {
    "viewer/cli/options.py": (4, OPTION),
    "viewer/cli/dimensions.py": (3, OPTION),
    "viewer/cli/edits.py": (4, OPTION),
    "viewer/cli/commands/checkpoints/info.py": (1, OPTION),
    "viewer/cli/prompt.py": (1, OPTION),
    "templates/export/_style.html": (1, "a property of CSS"),
    "viewer/web/live/consumers.py": (4, ASYNCIO),
    "viewer/engines/__init__.py": (2, REGISTRY),
    "viewer/host/jobs/runner_requests.py": (1, STORED),
    "viewer/records/limits.py": (1, STORED),
    "viewer/host/jobs/preflight.py": (2, STORED),
    "viewer/host/jobs/worker.py": (8, QUEUE),
    "viewer/host/jobs/request.py": (3, STORED),
    "viewer/host/jobs/spool.py": (4, STORED),
    "viewer/web/live/admission.py": (5, ASYNCIO),
    "viewer/web/live/broadcast.py": (4, ASYNCIO),
    "viewer/web/live/rounds.py": (1, ASYNCIO),
    "viewer/web/live/tail.py": (12, ASYNCIO),
    "viewer/messages/catalog/__init__.py": (6, REGISTRY),
    "viewer/messages/catalog/stores.py": (1, "a message that names an engine's failure"),
    "viewer/models/locations.py": (1, REGISTRY),
    "viewer/redaction/names.py": (2, WORDS),
    "viewer/redaction/shapes.py": (1, WORDS),
    "viewer/runners/forkline_prewarm/__init__.py": (1, STORED),
    "viewer/runners/prewarm_runner.py": (2, ASYNCIO),
}


def mentions(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if MENTION.search(line)]


def test_only_an_engine_and_its_runner_mention_its_terms() -> None:
    found = {}
    for path in (*(ROOT / "viewer").rglob("*.py"), *(ROOT / "templates").rglob("*.html")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(OWN):
            continue
        lines = mentions(path)
        if len(lines) > ALLOWED.get(name, (0, ""))[0]:
            found[name] = lines
    assert not found


def test_nothing_imports_an_engine_but_the_registry() -> None:
    packages = "|".join(re.escape(package) for package in ENGINES.values())
    imports = re.compile(rf"^\s*(from|import) ({packages})\b", re.MULTILINE)
    importers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "viewer").rglob("*.py")
        if imports.search(path.read_text())
    ]
    assert all(name.startswith(("viewer/engines/crewai/", "viewer/engines/langgraph/")) for name in importers)


def test_every_exception_is_still_needed() -> None:
    assert [name for name in ALLOWED if not (ROOT / name).exists() or not mentions(ROOT / name)] == []
