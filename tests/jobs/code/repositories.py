"""Real git repositories for tests."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from viewer.host.jobs.checkout import Checkout
from viewer.host.jobs.environment import GUARD

IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Ann"), ("EMAIL", "ann@example.com"))
}


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person would, with no configuration but the repository's own. Return its output."""
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    ran = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environment, check=True, capture_output=True
    )
    return ran.stdout.decode(errors="replace").strip()


def committed(folder: Path, *init: str, **files: str) -> str:
    """Make the folder a repository, if it is none, with these files in a commit. Return the commit.

    The names of files are written with two underscores for a dot: ``main__py``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main", *init)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def changed_since(source: Path, folder: Path, module: str) -> tuple[Path, dict[str, str]]:
    """Commit a copy of a project, then break a module of it. Return the folder of the commit's checkout.

    The variables keep a runner from importing anything of the copy.
    """
    project = shutil.copytree(source, folder / "project", ignore=shutil.ignore_patterns("__pycache__"))
    commit = committed(project)
    # As ``check_out`` would, which needs the database.
    git(folder, "clone", "-q", "--no-local", str(project), str(folder / "checkout"))
    shutil.rmtree(folder / "checkout" / ".git")
    (project / module).write_text("raise RuntimeError('the present code')")
    found = Checkout(project, folder / "checkout", commit)
    guard = folder / "guard.json"
    replaced = {"working_tree": str(found.top), "checkout": str(found.path)}
    guard.write_text(json.dumps({"protected": [], **replaced}))
    return found.of(project), {GUARD: str(guard)}


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The modification time and content of each file below a folder, and each folder's time."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }
