"""When the mounts of bubblewrap are complete, and so can be checked."""

import subprocess
import sys
from pathlib import Path

from viewer.host.jobs.supervisor import mounts_are_complete

# As bubblewrap does at its end: the former root stays above the new one until it is unmounted.
PIVOTING = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None)
bind, detach = 0x1000, 2
pivot_root = {"x86_64": 155, "aarch64": 41}[platform.machine()]
root, temporary = (one.encode() for one in sys.argv[1:])
assert libc.mount(root, root, None, bind, None) == 0
assert libc.mount(temporary, root + b"/tmp", None, bind, None) == 0
os.chdir(root)
assert libc.syscall(pivot_root, b".", b".") == 0
input(print("pivoted", flush=True) or "")
assert libc.umount2(b".", detach) == 0
input(print("unmounted", flush=True) or "")
"""


def test_mounts_are_complete_once_the_former_root_is_unmounted(tmp_path: Path) -> None:
    root, temporary = tmp_path / "root", tmp_path / "temporary"
    (root / "tmp").mkdir(parents=True)
    temporary.mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", PIVOTING]
    with subprocess.Popen(
        [*command, str(root), str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        complete = {}
        for _ in range(2):
            step = child.stdout.readline().strip()
            complete[step] = mounts_are_complete(child.pid, str(temporary))
            child.stdin.write("\n")
            child.stdin.flush()
    assert complete == {"pivoted": False, "unmounted": True}
    assert not mounts_are_complete(child.pid, str(temporary)), "a process that has ended has no mounts"
