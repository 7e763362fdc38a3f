"""Files that isolated runs leave in their projects, so that Forkline reads or runs what no run may reach.

Each project has a random hostile repository, and further files and links that lead to a private repository of
the user: as its ``.git``, its objects, its working tree, its configuration, its packages or its environment
file. Everything that Forkline reads of projects is read. Passes if nothing of the private repository is in
what was read, if no program has run, if nothing has changed, and if nothing waits.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from quality.fuzz.hostile_repositories import hostile_repository, state_of
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

# What waits for a pipe never ends, and a busy machine is slow.
PROJECTS, MAX_SECONDS = 200, 600.0
LAUNCHERS = ("landlock", "bubblewrap")
CANARY = "sk-canary-of-the-user"
SOURCE = f"""
class State(BaseModel):
    canary: str = "{CANARY}"


class Canary(Flow[State]):
    pass


graph = StateGraph(State)
"""
Plant = Callable[[Path, Path], object]


def _replaced(path: Path) -> Path:
    """The path, with nothing at it. Raises OSError, as a sandbox, if another plant leads out."""
    if "private" in os.path.realpath(path.parent):
        raise PermissionError(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _link(name: str, target: str) -> Plant:
    return lambda own, private: _replaced(own / name).symlink_to(private / target)


def _write(name: str, text: str) -> Plant:
    return lambda own, private: _replaced(own / name).write_text(text.format(private=private, own=own))


def _configure(text: str) -> Plant:
    def plant(own: Path, private: Path) -> None:
        path = own / ".git" / "config"
        if path.is_file() and "private" not in os.path.realpath(path):
            with open(path, "a") as file:
                file.write(text.format(private=private, own=own))

    return plant


PLANTS: Sequence[Plant] = (
    _write(".git", "gitdir: {private}/.git\n"),
    _write(".git", "gitdir: ../../private/.git/../.git\n"),
    _link(".git", ".git"),
    _write(".git/commondir", "{private}/.git\n"),
    _write(".git/gitdir", "{private}/.git\n"),
    _write(".git/objects/info/alternates", "{private}/.git/objects\n"),
    _write(".git/config.worktree", "[core]\n    worktree = {private}\n"),
    *(_link(f".git/{name}", f".git/{name}") for name in ("HEAD", "refs", "objects", "packed-refs", "index")),
    *(
        _link(f".git/{name}", f".git/{name}")
        for name in ("config", "refs/heads/main", "info", "logs", "hooks")
    ),
    _configure("[core]\n    worktree = {private}\n"),
    _configure("[core]\n    worktree = ../..\n"),
    _configure("[include]\n    path = {private}/main.py\n"),
    _configure("[core]\n    attributesFile = {private}/main.py\n    excludesFile = {private}/main.py\n"),
    _write("langgraph.json", '{{"dependencies": ["{private}", "."], "graphs": {{"a": "./main.py:graph"}}}}'),
    _write("langgraph.json", '{{"dependencies": ["../../private"], "env": "{private}/.env"}}'),
    *(
        _link(name, name)
        for name in ("langgraph.json", "pyproject.toml", "crew.jsonc", "main.py", "src", ".env")
    ),
    *(_link(name, ".") for name in ("linked", "src/linked", "config", "agents", ".venv")),
    _write("main.py", "from linked.main import State\n\n\nclass Own(Flow[State]):\n    pass\n"),
    *(
        lambda own, _private, name=name: os.mkfifo(_replaced(own / name))
        for name in ("langgraph.json", "pyproject.toml", "crew.jsonc", "main.py", ".env", ".venv/pyvenv.cfg")
    ),
)
ENTRY_POINTS = (
    "main:Canary",
    "main:Own",
    "linked.main:Canary",
    "src.main:Canary",
    "main:graph",
    "crew.jsonc",
)


def tried(folder: Path, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Plant files in a project for each seed, and read it. Return the counts and the faults. Needs Django."""
    counts, faults = Counter[str](), list[str]()
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        start = time.monotonic()
        faults += [f"seed {seed}: {one}" for one in _tried(own, random.Random(seed), counts)]
        faults += [f"seed {seed}: slow"] if time.monotonic() - start > MAX_SECONDS else []
        shutil.rmtree(own)
    return counts, faults


def _tried(folder: Path, chance: random.Random, counts: Counter[str]) -> list[str]:
    from viewer.models import Project
    from viewer.records.isolation import change_isolation, isolation_of

    private, mark = _private(folder / "private"), folder / "mark"
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o700)
    made = hostile_repository(folder / "apps" / "app", private, program, chance)
    own = made.folder
    if chance.randrange(2):
        # A repository that works.
        _replaced(own / ".git")
        _git(own, "init", "-q", "-b", "main")
        _commit(own)
    project = Project.objects.create(
        folder=str(own), interpreter=str(own / ".venv/bin/python"), environment_file=str(own / ".env")
    )
    launcher = chance.choice(LAUNCHERS)
    change_isolation(project, isolation_of({"launcher": launcher}))
    for plant in chance.sample(PLANTS, chance.randrange(1, 6)):
        # Another plant may be in its way.
        with suppress(OSError):
            plant(own, private)
            counts["planted"] += 1
    before = {**state_of(own), **state_of(private)}
    read = _everything_of(project, private, folder / "checkout", counts)
    project.delete()
    wrong = [f"{name} shows the canary" for name, text in read.items() if CANARY in text]
    commit, blob = (_git(private, "rev-parse", one) for one in ("HEAD", "HEAD:main.py"))
    wrong += [
        f"{name} shows the private commit" for name, text in read.items() if commit in text or blob in text
    ]
    wrong += ["a program ran"] if mark.exists() else []
    wrong += ["something changed"] if {**state_of(own), **state_of(private)} != before else []
    counts["projects"] += 1
    return wrong


def _private(folder: Path) -> Path:
    """A repository of the user, of which no project knows."""
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "main.py").write_text(SOURCE)
    (folder / ".env").write_text(f"OPENAI_API_KEY={CANARY}\n")
    (folder / "langgraph.json").write_text(json.dumps({"graphs": {CANARY: "./main.py:graph"}}))
    (folder / "pyproject.toml").write_text(f'[project.scripts]\nrun = "{CANARY}:run"\n')
    crew = {"agents": [CANARY], "tasks": [{"name": CANARY, "description": CANARY}], "inputs": {"a": CANARY}}
    (folder / "crew.jsonc").write_text(json.dumps(crew))
    _commit(folder)
    _git(folder, "pack-refs", "--all")
    return folder


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    ran = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)
    return ran.stdout.decode().strip()


def _commit(folder: Path) -> None:
    # git does not add all of a hostile folder.
    with suppress(subprocess.CalledProcessError):
        _git(folder, "add", "--all", "--ignore-errors")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "work")


def _everything_of(project: Any, private: Path, checkout: Path, counts: Counter[str]) -> dict[str, str]:
    """What Forkline reads of a project, as texts. What it refuses is none."""
    from viewer import host_requests as asked
    from viewer.host.answers import answer
    from viewer.host.jobs import checkout as git
    from viewer.host.jobs import code, environment
    from viewer.host.jobs.kept_keys import keepable_keys, values_of
    from viewer.host_requests import HostRefusal
    from viewer.models import RecordedCode

    own, commit = Path(project.folder), _git(private, "rev-parse", "HEAD")
    blob = _git(private, "rev-parse", "HEAD:main.py")
    reads: dict[str, Callable[[], Any]] = {
        "the code": lambda: code.code_of(project),
        "a commit": lambda: git.has_commit(own, commit) and commit,
        "a checkout": lambda: git.check_out(project, commit, checkout) and commit,
        "its environment": lambda: values_of(project),
        "its variables": lambda: environment.runner_environment("job", project),
        "its keys": lambda: keepable_keys(project),
        "its paths": lambda: [*environment.path_entries(Path(project.interpreter))],
        "its conflicts": lambda: environment.conflict_of(project),
    }
    for name in ("main.py", "linked/main.py", "../../private/main.py", "../private/main.py"):
        forged = RecordedCode(files={name: blob}, commit=commit)
        reads[f"the difference of {name}"] = partial(code.difference, forged, project, name)
    for engine in ("crewai", "langgraph"):
        requests: list[Any] = [
            asked.FindEntryPoints(engine, project.folder),
            asked.ListNamedEntryPoints(engine, project.folder),
            asked.ProposeProject(str(own / "checkpoints"), engine),
            asked.ReadInterpreter(project.interpreter, engine),
            asked.ListCheckpointEvents(engine, project.interpreter),
        ]
        for point in ENTRY_POINTS:
            for kind in ("crew", "flow", "graph"):
                requests += [
                    asked.ListInputNames(engine, project.folder, point, kind),
                    asked.ReadSource(engine, project.folder, point, kind),
                    asked.ReadSource(engine, project.folder, point, kind, commit),
                ]
        for request in requests:
            reads[f"{engine}: {request}"] = partial(answer, request)
    found = {}
    for name, read in reads.items():
        counts["reads"] += 1
        try:
            found[name] = repr(read())
            counts["refused or empty"] += found[name] in ("None", "[]", "{}", "False", "()")
        except (HostRefusal, OSError, ValueError):
            counts["refused or empty"] += 1
    # What was asked for names the commit.
    return {name.replace(commit, "a commit"): text for name, text in found.items()}


def main() -> int:
    """Read all projects, and print the counts. Return 1 if something was wrong."""
    with temporary_data_folder() as folder:
        (folder / "projects").mkdir()
        counts, faults = tried(folder / "projects", range(PROJECTS))
    print_heading(*counts, "wrong")
    print_row(*counts.values(), len(faults))
    print(*faults[:20], sep="\n")
    return 1 if faults or not counts["planted"] else 0


if __name__ == "__main__":
    sys.exit(main())
