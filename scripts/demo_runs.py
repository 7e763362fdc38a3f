"""Runs the demo: the newsroom's crew, flow and agent, two forks and a resume, then the support agent."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

from scripts import demo_rows, demo_support
from viewer.cli.supervision import signal_at_parents_end

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "demo"
PYTHON = PROJECT / ".venv/bin/python"
POLL_SECONDS = 0.1
# The folder of each store, and the arguments of the demo's program.
STORES = {"article": "article", "article.db": "article", "digest": "digest", "interview": "interview"}
DRAFT = """# AI checkpoints in 2026

Forking used to mean copying a folder and hoping.

Now the branch is drawn where it left, and what was kept, changed and run again is said before it starts."""


def write_environment(folder: Path, model_url: str) -> None:
    """Write the project's environment file with the current address of the model."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = (PROJECT / ".env").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#", "OPENAI_BASE_URL"))]
    text = "\n".join([*kept, f"OPENAI_BASE_URL={model_url}", ""])
    descriptor = os.open(folder / ".env", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def is_finished(folder: Path) -> bool:
    """Return whether everything has run. If not, the next start begins again."""
    return (folder / "finished").exists()


def first_location(folder: Path) -> Path:
    """Return the location whose lineage grows first."""
    return folder / "newsroom/article"


def make_locations(folder: Path) -> None:
    """Record the project and its empty checkpoint folders."""
    stores = folder / "newsroom"
    for store in STORES:
        if not store.endswith(".db"):
            (stores / store).mkdir(parents=True)
            demo_rows.import_store(stores / store)
    demo_rows.record_project(stores, PROJECT, PYTHON, folder / ".env")


def notice_file(folder: Path) -> Path:
    """Return the file whose text every page of the dashboard shows."""
    return folder / "notice.txt"


def install_engines(folder: Path, lifeline: int | None) -> None:
    """Make the environments of the projects, and say so on the pages meanwhile. Exit if that fails."""
    notice = notice_file(folder)
    notice.write_text(
        "The demo's engines, CrewAI and LangGraph, are being installed. Its runs begin after that."
    )
    # Without dot, a lineage is a list. Nobody waits for its installation.
    subprocess.Popen([ROOT / "scripts/system-packages", "dot"], stdin=subprocess.DEVNULL)
    child = subprocess.Popen([ROOT / "scripts/demo-environments"], stdin=subprocess.DEVNULL, text=True)
    wait_until(lambda: False, [child], lifeline)
    if child.returncode:
        notice.write_text("The demo's engines could not be installed: the terminal says why.")
        sys.exit(1)
    notice.unlink()


def run_everything(folder: Path, lifeline: int | None = None) -> None:
    """Let CrewAI write every store, then fork and resume. Exit if a step fails.

    Exit as well when the other end of the ``lifeline`` pipe is closed.
    """
    stores = folder / "newsroom"
    install_engines(folder, lifeline)
    say("Running the newsroom with CrewAI: an article crew (twice), a digest flow, a lone interviewer …")
    run_programs(stores, read_environment(folder), lifeline)
    for store in STORES:
        demo_rows.import_store(stores / store)
    demo_rows.record_project(stores, PROJECT, PYTHON, folder / ".env")
    article, database = stores / "article", stores / "article.db"
    draft = folder / "draft.md"
    draft.write_text(DRAFT)
    say("Forking the article with an edited draft …")
    after_draft = f"{article}#{checkpoint_after(article, 2)}"
    forked = ["--branch", "shorter-draft", "--output", f"2=@{draft}"]
    continue_run(folder, lifeline, "fork", after_draft, *forked)
    say("Forking the article for the year 2030 …")
    after_research = f"{article}#{checkpoint_after(article, 1)}"
    continue_run(folder, lifeline, "fork", after_research, "--branch", "year-2030", "--input", "year=2030")
    say("Resuming the article in the database from its third task …")
    continue_run(folder, lifeline, "resume", f"{database}#{checkpoint_after(database, 3)}")
    say("Running a support agent with LangGraph, and forking the thread that waits …")
    demo_support.run(
        folder,
        partial(run_program, read_environment(folder), lifeline),
        partial(checkpoints_command, lifeline=lifeline),
    )
    (folder / "finished").touch()
    say("The demo is complete.")


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


def read_environment(folder: Path) -> dict[str, str]:
    """Return the environment of this process, updated with the demo's variables."""
    lines = (folder / ".env").read_text().splitlines()
    return {**os.environ, **dict(line.split("=", 1) for line in lines)}


def run_programs(stores: Path, environment: dict[str, str], lifeline: int | None) -> None:
    """Run the demo's programs, each into its store. The others wait until the first has started."""
    logs = stores.parent / "logs"
    logs.mkdir(exist_ok=True)

    def started(store: str) -> "subprocess.Popen[str]":
        arguments = [str(PYTHON), "-m", "newsroom.main", STORES[store], "--checkpoints", store]
        with open(logs / f"{store}.txt", "wb") as log:
            return start_program(arguments, stores, environment, log)

    first, *others = STORES
    children = {first: started(first)}
    wait_until(lambda: any((stores / first).rglob("*.json")), children.values(), lifeline)
    for store in others:
        children[store] = started(store)
    wait_until(lambda: False, children.values(), lifeline)
    for store, child in children.items():
        if child.returncode:
            sys.exit(f"{store} failed: see {logs / f'{store}.txt'}")


def start_program(
    arguments: Sequence[str], folder: Path, environment: dict[str, str], log: IO[bytes] | None = None
) -> "subprocess.Popen[str]":
    """Start a program of the demo in a folder. It ends with this process."""
    return subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        text=True,
        # It would continue without the demo and its model.
        preexec_fn=partial(signal_at_parents_end, signal.SIGKILL),  # noqa: PLW1509 (no threads yet)
    )


def run_program(
    environment: dict[str, str], lifeline: int | None, arguments: Sequence[str], folder: Path
) -> None:
    """Run a program of the demo in a folder, to its end. Exit if it fails."""
    child = start_program(arguments, folder, {**environment, "PYTHONDONTWRITEBYTECODE": "1"})
    wait_until(lambda: False, [child], lifeline)
    if child.returncode:
        sys.exit(f"{' '.join(arguments)} failed")


def wait_until(
    is_done: Callable[[], bool], children: Collection["subprocess.Popen[str]"], lifeline: int | None
) -> None:
    """Wait until the condition holds or every child has ended. Exit if the lifeline is closed."""
    while not is_done() and any(child.poll() is None for child in children):
        if lifeline is None:
            time.sleep(POLL_SECONDS)
        elif select.select([lifeline], [], [], POLL_SECONDS)[0]:
            for child in children:
                child.terminate()
            sys.exit(1)


def checkpoint_after(location: Path, units_done: int) -> str:
    """Return the id of the first run's checkpoint after this task."""
    listed = checkpoints_command("list", str(location))
    wanted = {"trigger": "task_completed", "units_done": units_done, "branch": "main"}
    found = [checkpoint for run in listed["runs"] for checkpoint in run["checkpoints"]]
    return str(next(checkpoint["id"] for checkpoint in found if wanted.items() <= checkpoint.items()))


def continue_run(folder: Path, lifeline: int | None, how: str, checkpoint: str, *edits: str) -> None:
    """Fork or resume with the terminal command, and wait for the end."""
    project = ["--project", str(PROJECT), "--python", str(PYTHON), "--env-file", str(folder / ".env")]
    entry_point = ["--entrypoint", "newsroom.crew:Newsroom"]
    arguments = (how, checkpoint, *edits, *project, *entry_point, "--wait")
    checkpoints_command(*arguments, lifeline=lifeline)


def checkpoints_command(*arguments: str, lifeline: int | None = None) -> dict[str, Any]:
    """Return the document of ``manage.py checkpoints … --json``. Exit if it fails."""
    command = [sys.executable, str(ROOT / "manage.py"), "checkpoints", *arguments, "--json"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    # Read while it is written: a long document does not fit into the pipe.
    with ThreadPoolExecutor(1) as pool:
        printed = pool.submit(child.stdout.read)
        wait_until(lambda: False, [child], lifeline)
        output = printed.result()
    if child.wait():
        sys.exit(f"manage.py checkpoints {' '.join(arguments)} failed:\n{output}")
    document: dict[str, Any] = json.loads(output)
    return document


if __name__ == "__main__":
    run_everything(Path(sys.argv[1]), int(sys.argv[2]))
