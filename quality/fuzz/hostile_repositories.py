"""Reads, compares and checks out hostile git repositories.

Passes if no program that a repository names runs, if nothing in it and nothing outside it changes, if no text
of a file outside it is read, if a checkout has exactly the files of its commit and no link that leads out, if
a forged record shows no file but a committed source, and if nothing takes long.
"""

import hashlib
import os
import random
import shutil
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

# git is asked eleven times about each, and is ended after three seconds, such as where it waits for a pipe.
REPOSITORIES, MAX_SECONDS = 400, 60.0
SECRET = b"KEY = 'canary of another folder'\n"
SOURCES = (
    *(b"value = 1\n", b"", b"\0\xff\xfe", b"\xef\xbb\xbfx = 1\r\n", b"$Id$ $Format:%H$\n", b"def build(:\n"),
    *(b"x = " + b"(" * 20_000, b"x" * 300_000, b"x = " + b"-" * 200_000 + b"1", b"\x0c\x1a"),
    *(b"x = '''" + b"\\N{" * 900, b"x = 1" + b"0" * 6_000, b"a" + b".a" * 50_000),
)
NAMES = (
    *(b"main.py", b"crew.py", b"langgraph.json", b"pyproject.toml", b"agents.yaml", b".gitattributes"),
    *(b".env", b".gitmodules", b"--output=x.py", b"-c.py", b":(glob)*.py", b"a\nb.py", b"\xff\xfe.py"),
    *(b"a b'\".py", b"\xe2\x80\xae.py", b"*.py", b"~.py", b"$(touch mark).py", b"`touch mark`.py"),
    b"x" * 200 + b".py",
)
UNSAFE_NAMES = (b"..", b".", b"", b".git", b".GIT", b"a/b.py", b"/tmp/x.py", b"../up.py", b"x" * 300)
LINKS = (
    b"main.py",
    b"../main.py",
    b".",
    b"/etc/passwd",
    b"../" * 9 + b"etc/passwd",
    b"x" * 4_000,
    b"",
    b"\0",
)
ATTRIBUTES = b"* filter=evil diff=evil merge=evil ident eol=crlf working-tree-encoding=UTF-16 export-subst\n"
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc")
CONFIG = """
[core]
    fsmonitor = {program}
    hooksPath = {outside}/hooks
    sshCommand = {program}
    gitProxy = {program}
    pager = {program}
    editor = {program}
    askPass = {program}
    alternateRefsCommand = {program}
    untrackedCache = true
    attributesFile = {outside}/attributes
    excludesFile = {outside}/secret.py
[alias]
    rev-parse = !{program}
    ls-tree = !{program}
    cat-file = !{program}
    check-ignore = !{program}
[pager]
    rev-parse = {program}
    ls-tree = {program}
    cat-file = {program}
[filter "evil"]
    clean = {program}
    smudge = {program}
    process = {program}
    required = true
[diff]
    external = {program}
[diff "evil"]
    textconv = {program}
    command = {program}
[credential]
    helper = !{program}
[gpg]
    program = {program}
[log]
    showSignature = true
[remote "origin"]
    url = ext::{program}
    promisor = true
    partialclonefilter = blob:none
    uploadpack = {program}
[uploadpack]
    packObjectsHook = {program}
[protocol]
    allow = always
"""
MORE_CONFIG = (
    "[include]\n    path = {outside}/config\n",
    '[includeIf "gitdir:/"]\n    path = {outside}/config\n',
    "[core]\n    worktree = {outside}\n",
    "[core]\n    bare = true\n",
    "[extensions]\n    partialClone = origin\n",
    "[extensions]\n    worktreeConfig = true\n",
    "[core]\n    repositoryformatversion = 1\n[extensions]\n    odd = true\n",
    "[core]\n    precomposeUnicode = true\n    protectHFS = false\n    protectNTFS = false\n",
    "[broken\n",
    "\0",
)


BROKEN = (
    ("HEAD", b"ref: refs/heads/../../../outside/HEAD\n"),
    ("HEAD", b"ref: refs/heads/loop\n"),
    ("HEAD", b"\xff" * 5_000),
    ("refs/heads/loop", b"ref: refs/heads/loop\n"),
    ("refs/heads/main", b"0123456789"),
    ("refs/replace/" + "1" * 40, b"3" * 40),
    ("packed-refs", b"# pack-refs with: sorted\n\xff\n" * 100),
    ("objects/info/alternates", b"OUTSIDE/objects\n../../../../..\n"),
    ("objects/info/commit-graph", b"CGPH\1\1\4\0" + b"\xff" * 200),
    (f"objects/pack/pack-{'0' * 40}.idx", b"\377tOc\0\0\0\2" + b"\xff" * 2_000),
    ("commondir", b"OUTSIDE\n"),
    ("shallow", b"not an id\n"),
    ("index", b"DIRC\0\0\0\4" + b"\xff" * 8),
)


@dataclass
class Hostile:
    """A repository that is written object by object, next to a folder that it must not touch."""

    folder: Path
    outside: Path
    chance: random.Random
    # The content of each blob, and what ids the commit's paths have.
    blobs: dict[str, bytes] = field(default_factory=dict)
    paths: dict[bytes, tuple[bytes, str]] = field(default_factory=dict)
    commit: str = ""
    # Whether a tree has two entries of one name.
    is_ambiguous: bool = False

    @property
    def git(self) -> Path:
        return self.folder / ".git"

    def store(self, kind: str, data: bytes, *, name: str = "") -> str:
        """Write an object, and return its id. With a name, it is another object's."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = name or hashlib.sha1(whole).hexdigest()
        path = self.git / "objects" / name[:2] / name[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.compress(whole, 1))
        return name

    def blob(self) -> str:
        """The id of a blob, which may be missing, damaged or another one."""
        data = self.chance.choice(SOURCES)
        how = self.chance.randrange(60)
        name = self.text(data)
        path = self.git / "objects" / name[:2] / name[2:]
        if how == 0:
            path.unlink(missing_ok=True)
        elif how == 1:
            path.write_bytes(path.read_bytes()[:-3])
        elif how == 2:
            self.store("blob", b"another\n", name=name)
        elif how == 3:
            # Says that it is larger than memory.
            path.write_bytes(zlib.compress(b"blob 99999999999\0x"))
        return name

    def tree(self, depth: int = 0, prefix: bytes = b"") -> str:
        """The id of a tree with hostile names and modes."""
        chance, entries = self.chance, []
        names = chance.sample(NAMES, chance.randrange(1, 6))
        names += [chance.choice(UNSAFE_NAMES)] if chance.randrange(12) == 0 else []
        if chance.randrange(25) == 0:
            names += names[:1]
            self.is_ambiguous = True
        for name in names:
            mode, found = self.entry(name, depth, prefix)
            entries.append(mode + b" " + name + b"\0" + bytes.fromhex(found))
            if mode != b"40000":
                self.paths[prefix + name] = mode, found
        if chance.randrange(4):
            entries.sort(key=lambda one: one.split(b" ", 1)[1])
        return self.store("tree", b"".join(entries))

    def entry(self, name: bytes, depth: int, prefix: bytes) -> tuple[bytes, str]:
        """The mode of an entry and the id of its object."""
        chance = self.chance
        how = chance.randrange(40)
        if how == 0:
            return b"160000", "1" * 40
        if how <= 4:
            return b"120000", self.text(
                chance.choice((*LINKS, os.fsencode(self.outside / "secret.py"), name))
            )
        if how <= 9 and depth < 4:
            return b"40000", self.tree(depth + 1, prefix + name + b"/")
        if how == 10:
            return chance.choice((b"100664", b"0", b"777777", b"140000")), self.blob()
        if name == b".gitattributes":
            return b"100644", self.text(ATTRIBUTES)
        return chance.choice((b"100644", b"100644", b"100755")), self.blob()

    def text(self, data: bytes) -> str:
        """The id of a blob with this content."""
        name = self.store("blob", data)
        self.blobs[name] = data
        return name

    def deep_tree(self, levels: int) -> str:
        """The id of a tree with this many folders in each other."""
        found, mode = self.blob(), b"100644"
        for _level in range(levels):
            found, mode = self.store("tree", mode + b" a\0" + bytes.fromhex(found)), b"40000"
        return found


def hostile_repository(folder: Path, outside: Path, program: Path, chance: random.Random) -> Hostile:
    """A repository in which everything that can name a program names one that leaves a mark."""
    made = Hostile(folder, outside, chance)
    git = made.git
    for name in ("objects/info", "refs/heads", "info", "hooks", "logs"):
        (git / name).mkdir(parents=True)
    tree = made.deep_tree(3_000) if chance.randrange(60) == 0 else made.tree()
    author = b"Ann <ann@example.com> 1700000000 +0000"
    parents = b"parent " + b"2" * 40 + b"\n" if chance.randrange(10) == 0 else b""
    text = b"tree %s\n%sauthor %s\ncommitter %s\n\nwork\n" % (tree.encode(), parents, author, author)
    made.commit = made.store("commit", text)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text(f"{made.commit}\n")
    (git / "refs/heads/--textconv").write_text(f"{made.commit}\n")
    chosen = chance.sample(MORE_CONFIG, chance.choice((0, 0, 1, 2)))
    config = "[core]\n    repositoryformatversion = 0\n" + CONFIG + "".join(chosen)
    (git / "config").write_text(config.format(program=program, outside=outside))
    (git / "info/attributes").write_bytes(ATTRIBUTES)
    (git / "info/exclude").write_text("*.log\n")
    for name in HOOKS:
        shutil.copy(program, git / "hooks" / name)
    _break(made)
    for path, (mode, found) in made.paths.items():
        if path in NAMES and mode in (b"100644", b"100755") and found in made.blobs and chance.randrange(3):
            (folder / os.fsdecode(path)).write_bytes(made.blobs[found])
    if chance.randrange(3) == 0:
        (folder / "linked.py").symlink_to(outside / "secret.py")
        (folder / "folder").symlink_to(outside)
    return made


def _break(made: Hostile) -> None:
    """Replace a part of the repository's own files by something odd, in some of the repositories."""
    at, git = made.chance.randrange(40), made.git
    if at < len(BROKEN):
        name, text = BROKEN[at]
        (git / name).parent.mkdir(exist_ok=True)
        (git / name).write_bytes(text.replace(b"OUTSIDE", os.fsencode(made.outside)))
    elif at == len(BROKEN):
        (git / "config").unlink()
        (git / "config").symlink_to(made.outside / "config")
    elif at == len(BROKEN) + 1:
        (git / "config").unlink()
        os.mkfifo(git / "config")
    elif at == len(BROKEN) + 2:
        git.rename(made.folder / "real")
        git.write_text("gitdir: real\n")


def main() -> int:
    """Print what became of the repositories. Return 1 if anything was wrong."""
    with temporary_data_folder() as folder:
        counts, faults = tried(folder, range(REPOSITORIES))
    print_heading("repositories", *counts, "wrong")
    print_row(REPOSITORIES, *counts.values(), len(faults))
    print(*faults[:20], sep="\n")
    return 1 if faults or min(counts["with a commit"], counts["checked out"], counts["compared"]) == 0 else 0


def tried(folder: Path, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Read a repository of each seed below the folder. Return what happened, and what was wrong."""
    counts, faults = Counter[str](), list[str]()
    outside = folder / "outside"
    program, mark = outside / "evil", outside / "mark"
    (outside / "hooks").mkdir(parents=True)
    (outside / "objects").mkdir()
    (outside / "secret.py").write_bytes(SECRET)
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o700)
    (outside / "config").write_text(CONFIG.format(program=program, outside=outside))
    (outside / "attributes").write_bytes(ATTRIBUTES)
    for name in HOOKS:
        shutil.copy(program, outside / "hooks" / name)
    for seed in seeds:
        work = folder / f"code {seed}"
        made = hostile_repository(work, outside, program, random.Random(seed))
        before, start = {**state_of(work), **state_of(outside)}, time.monotonic()
        try:
            wrong = try_repository(made, folder / "checkouts" / str(seed), counts)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"[:300]]
        wrong += ["a program ran"] if mark.exists() else []
        mark.unlink(missing_ok=True)
        wrong += ["something changed"] if {**state_of(work), **state_of(outside)} != before else []
        wrong += ["slow"] if time.monotonic() - start > MAX_SECONDS else []
        faults += [f"seed {seed}: {one}" for one in wrong]
        shutil.rmtree(work)
    return counts, faults


def try_repository(made: Hostile, checkout: Path, counts: Counter[str]) -> list[str]:
    """Record the code of a project in it, compare it with forged records, and check out its commit."""
    from viewer.host.jobs.checkout import check_out
    from viewer.host.jobs.code import changes_since, code_of, difference, source_at
    from viewer.host_requests import JobRefused, ReadSource
    from viewer.models import Project, RecordedCode

    project, wrong = Project(folder=str(made.folder)), list[str]()
    code = code_of(project)
    counts["with a commit"] += bool(code.commit)
    secret = hashlib.sha1(b"blob %d\0" % len(SECRET) + SECRET).hexdigest()
    wrong += ["a linked file was read"] if secret in code.files.values() else []
    recorded = RecordedCode(files=dict(code.files), commit=code.commit, is_complete=code.is_complete)
    wrong += [f"{one.name} changed" for one in changes_since(recorded, project)]
    for name, digest in _forged(made, secret):
        found = difference(RecordedCode(files={name: digest}, commit=made.commit), project, name)
        counts["compared"] += found.before is not None
        if SECRET.decode().strip() in f"{found.before}{found.after}":
            wrong.append(f"{name} shows a file outside")
        if found.before is not None and not _is_source(made, name, digest):
            wrong.append(f"{name} shows {digest}")
    for engine in ("crewai", "langgraph"):
        # The time limit of git may end it.
        source_at(ReadSource(engine, str(made.folder), "main:build", "crew", made.commit or "0" * 40))
    checkout.parent.mkdir(exist_ok=True)
    try:
        check_out(project, made.commit or code.commit, checkout)
    except (JobRefused, OSError):
        # The file system refuses names that are too long.
        counts["refused"] += 1
        return [*wrong, *(["a refused checkout was left"] if checkout.exists() else [])]
    counts["checked out"] += 1
    return [*wrong, *_faults_of(made, checkout)]


def _forged(made: Hostile, secret: str) -> list[tuple[str, str]]:
    """Names of sources and ids of objects, as a forged record pairs them. Some pairs are committed."""
    names = [path.decode(errors="backslashreplace") for path in made.paths]
    digests = [one for _mode, one in made.paths.values()]
    pairs = list(zip(names, digests, strict=True))[:3]
    names += [".env", "../outside/secret.py", "linked.py", "--textconv"]
    digests += [secret, "--textconv", made.commit]
    return [*pairs, *((made.chance.choice(names), made.chance.choice(digests)) for _more in range(4))]


def _is_source(made: Hostile, name: str, digest: str) -> bool:
    """Whether the commit has a source of this name with this digest."""
    from viewer.host.jobs.code import DECIDING

    found = {path.decode(errors="backslashreplace"): one for path, (_mode, one) in made.paths.items()}
    return name.endswith(DECIDING) and found.get(name) == digest


def _faults_of(made: Hostile, checkout: Path) -> list[str]:
    """What a checkout has that its commit has not, and the other way around."""
    from viewer.host.jobs.checkout import remove_committed

    found, wrong = dict[bytes, bytes](), list[str]()
    real = Path(os.path.realpath(checkout))
    for current, folders, names in os.walk(checkout):
        for name in (*names, *(one for one in folders if Path(current, one).is_symlink())):
            path = Path(current, name)
            key = os.fsencode(path.relative_to(checkout))
            found[key] = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            if not Path(os.path.realpath(path)).is_relative_to(real):
                wrong.append(f"{path} leads out")
    wanted = {path: made.blobs.get(one) for path, (_mode, one) in made.paths.items()}
    is_known = made.paths and not made.is_ambiguous
    wrong += ["a checkout with other files"] if is_known and found != wanted else []
    remove_committed(checkout)
    return [*wrong, *(["a checkout was left"] if checkout.exists() else [])]


def state_of(folder: Path) -> Mapping[str, tuple[int, int]]:
    """The modification time and size of each file and folder below one. Reading may change access times."""
    found = {}
    for current, folders, names in os.walk(folder):
        for name in (".", *folders, *names):
            status = Path(current, name).lstat()
            found[f"{current}/{name}"] = status.st_mtime_ns, status.st_size
    return found


if __name__ == "__main__":
    sys.exit(main())
