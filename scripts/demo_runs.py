"""What the demo runs: the newsroom's crew, flow and agent, then two forks and a resume of the crew."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from scripts import demo_rows
from viewer.supervision.lifeline import signal_at_parents_end

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "demo"
PYTHON = PROJECT / ".venv/bin/python"
# Where each writes, below the newsroom's folder, and what the demo's program is asked to run.
STORES = {"article": "article", "article.db": "article", "digest": "digest", "interview": "interview"}
DRAFT = """# AI checkpoints in 2026

Forking used to mean copying a folder and hoping.

Now the branch is drawn where it left, and what was kept, changed and run again is said before it starts."""


def write_environment(folder: Path, model_url: str) -> None:
    """The project's environment file for this start, with the model's present address."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = (PROJECT / ".env").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#", "OPENAI_BASE_URL"))]
    text = "\n".join([*kept, f"OPENAI_BASE_URL={model_url}", ""])
    descriptor = os.open(folder / ".env", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def run_everything(folder: Path) -> None:
    """Have CrewAI write every store, then fork and resume. Ends the program where one fails."""
    stores = folder / "newsroom"
    print(
        "Running the newsroom with CrewAI: an article crew (twice), a digest flow, a lone interviewer …",
        flush=True,
    )
    run_programs(stores, read_environment(folder))
    for store in STORES:
        demo_rows.import_store(stores / store)
    demo_rows.record_project(stores, PROJECT, PYTHON, folder / ".env")
    article, database = stores / "article", stores / "article.db"
    draft = folder / "draft.md"
    draft.write_text(DRAFT)
    print("Forking the article with an edited draft …", flush=True)
    after_draft = f"{article}#{checkpoint_after(article, 2)}"
    continue_run(folder, "fork", after_draft, "--branch", "shorter-draft", "--output", f"2=@{draft}")
    print("Forking the article for the year 2030 …", flush=True)
    after_research = f"{article}#{checkpoint_after(article, 1)}"
    continue_run(folder, "fork", after_research, "--branch", "year-2030", "--input", "year=2030")
    print("Resuming the article in the database from its third task …", flush=True)
    continue_run(folder, "resume", f"{database}#{checkpoint_after(database, 3)}")


def read_environment(folder: Path) -> dict[str, str]:
    """The demo's own variables over those of this process."""
    lines = (folder / ".env").read_text().splitlines()
    return {**os.environ, **dict(line.split("=", 1) for line in lines)}


def run_programs(stores: Path, environment: dict[str, str]) -> None:
    """Run the demo's programs side by side, each into its store."""
    logs = stores.parent / "logs"
    logs.mkdir(exist_ok=True)
    stores.mkdir()
    children: dict[str, subprocess.Popen[bytes]] = {}
    for store, what in STORES.items():
        with open(logs / f"{store}.txt", "wb") as log:
            children[store] = subprocess.Popen(
                [PYTHON, "-m", "newsroom.main", what, "--checkpoints", store],
                cwd=stores,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # They would go on without the demo, and without its model.
                preexec_fn=partial(signal_at_parents_end, signal.SIGKILL),
            )
    for store, child in children.items():
        if child.wait():
            sys.exit(f"{store} failed: see {logs / f'{store}.txt'}")


def checkpoint_after(location: Path, tasks_done: int) -> str:
    """The id of the first run's checkpoint that stands behind this task."""
    listed = checkpoints_command("list", str(location))
    wanted = {"trigger": "task_completed", "tasks_done": tasks_done, "branch": "main"}
    found = [checkpoint for run in listed["runs"] for checkpoint in run["checkpoints"]]
    return str(next(checkpoint["id"] for checkpoint in found if wanted.items() <= checkpoint.items()))


def continue_run(folder: Path, how: str, checkpoint: str, *edits: str) -> None:
    """Fork or resume as a person would at the terminal, and wait for the end."""
    project = ["--project", str(PROJECT), "--python", str(PYTHON), "--env-file", str(folder / ".env")]
    entry_point = ["--entrypoint", "newsroom.crew:Newsroom"]
    checkpoints_command(how, checkpoint, *edits, *project, *entry_point, "--wait")


def checkpoints_command(*arguments: str) -> dict[str, Any]:
    """The document of ``manage.py checkpoints … --json``. Ends the program where it fails."""
    command = [sys.executable, str(ROOT / "manage.py"), "checkpoints", *arguments, "--json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"manage.py checkpoints {' '.join(arguments)} failed:\n{done.stdout}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
