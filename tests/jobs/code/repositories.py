"""Real git repositories for tests."""

import os
import subprocess
from pathlib import Path

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


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The modification time and content of each file below a folder, and each folder's time."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }
