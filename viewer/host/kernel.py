"""What the kernel enforces for a process and its descendants: limits, Landlock and seccomp. Linux only.

Python has no interface to Landlock and seccomp. Nothing here imports Django or the rest of Forkline, because
the supervisor (viewer/host/jobs/supervisor.py) starts for each run.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

# prctl(2).
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38


def prctl(option: int, value: int, address: int = 0) -> None:
    """Set an attribute of this process. Raises OSError."""
    if _libc.prctl(option, value, ctypes.c_void_p(address), 0, 0):
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error()
    return result


# Limits of each process.

# The supervisor counts the processes of a run. The kernel, which counts all of the user's, stops a run that
# starts them faster, and leaves room for what the user starts meanwhile.
MAX_OTHER_TASKS = 500


def limit_resources(limits: dict[str, int], other_tasks: int | None) -> None:
    """Set the limits of this process, which its descendants inherit.

    ``other_tasks`` is the number of the user's processes and threads before the run, which the kernel counts
    as well; None if it does not count them, as for root. Raises OSError, ValueError.
    """
    found = [(resource.RLIMIT_CORE, 0)]
    if limits.get("memory_mb"):
        found.append((resource.RLIMIT_DATA, limits["memory_mb"] * 1024**2))
    if limits.get("cpu_seconds"):
        # The supervisor, which says why, comes first.
        found.append((resource.RLIMIT_CPU, limits["cpu_seconds"] + 1))
    if limits.get("open_files"):
        found.append((resource.RLIMIT_NOFILE, limits["open_files"]))
    if limits.get("processes") and other_tasks is not None:
        found.append((resource.RLIMIT_NPROC, limits["processes"] + other_tasks + MAX_OTHER_TASKS))
    for kind, most in found:
        _soft, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # SIGXCPU comes at the soft limit, SIGKILL at the hard one.
        resource.setrlimit(kind, (least, least + (kind == resource.RLIMIT_CPU and least < hard)))


def drop_capabilities() -> None:
    """Give up the capabilities of root, also for programs that are started later. Raises OSError.

    Needs ``PR_SET_NO_NEW_PRIVS``: without it, root gets them back with the next program.
    """
    header = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("6I", *(0,) * 6)
    if _libc.capset(header, data):
        raise _error()


# Namespaces.

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NS_GET_USERNS = 0xB701


def enter_network(process: int) -> None:
    """Enter the network of another process, with all capabilities there. Raises OSError.

    That process has a network of its own, in a user namespace that this user has made. This one has a single
    thread.
    """
    network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.path.sameopenfile(network, own := os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)):
        raise OSError("the sandbox shares the network of this machine")
    # bubblewrap may have put the process into a further user namespace, without rights to its network.
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    for descriptor, kind in ((owner, CLONE_NEWUSER), (network, CLONE_NEWNET)):
        if _libc.setns(descriptor, kind):
            raise _error()
    for descriptor in (network, own, owner):
        os.close(descriptor)


def control(opened: socket.socket, request: int, argument: bytes) -> bytes:
    """Ask a network device by one of its requests, and return its answer. Raises OSError."""
    answer: bytes = fcntl.ioctl(opened, request, argument)
    return answer


# Landlock: which files a process may open, whom it may signal and trace. Rights are only ever added below a
# folder, so what is not named stays closed.

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
VERSION_FLAG, RULE_PATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
# Without devices, which only root makes.
WRITE = (WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM) | (
    REFER | TRUNCATE | IOCTL_DEV
)
# Rights that a file has; the kernel refuses the others for what is no folder.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_SOCKET, SCOPE_SIGNAL = 1, 2
# The versions from which the rights above exist.
REFER_ABI, TRUNCATE_ABI, TCP_ABI, IOCTL_ABI, SCOPE_ABI = 2, 3, 4, 5, 6


def landlock_version() -> int:
    """The version of Landlock's interface in this kernel. Raises OSError if it has none, or it is off."""
    return _call(LANDLOCK_CREATE, None, 0, VERSION_FLAG)


def handled_rights(version: int) -> int:
    """The rights to files that a kernel with this version of Landlock can withhold."""
    bits = 13 + (version >= REFER_ABI) + (version >= TRUNCATE_ABI) + (version >= IOCTL_ABI)
    return (1 << bits) - 1


def restrict_files(
    read: Iterable[str], write: Iterable[str], *, network: bool, data: Iterable[str] = ()
) -> int:
    """Close all files but those in these folders, for this thread, what it starts, and their descendants.

    Paths that lead through a link are skipped, as those that do not exist: where it leads is a path of its
    own. Nothing in ``data`` can be executed. Without ``network``, TCP is closed as well where the kernel has
    it. Return the version. Raises OSError. The caller has set ``PR_SET_NO_NEW_PRIVS``.
    """
    version = landlock_version()
    handled = handled_rights(version)
    tcp = BIND_TCP | CONNECT_TCP if version >= TCP_ABI and not network else 0
    scope = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL if version >= SCOPE_ABI else 0
    attributes = struct.pack("QQQ", handled, tcp, scope)
    size = 24 if version >= SCOPE_ABI else 16 if version >= TCP_ABI else 8
    rules = _call(LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0)
    try:
        for paths, rights in ((read, READ), (write, READ | WRITE), (data, READ_FILE | READ_DIR)):
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError):
                    _allow(rules, path, rights & handled)
        _call(LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)
    return version


def _allow(rules: int, path: str, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = Path(f"/proc/self/fd/{opened}")
        if str(found.readlink()) != path:
            # Another run may have put it there after the path was chosen.
            return
        if not found.is_dir():
            rights &= OF_FILES
        _call(LANDLOCK_ADD, rules, RULE_PATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)


# seccomp: system calls that reach what neither Landlock nor namespaces close. A Unix socket may lead to a
# program that acts outside, such as the user's systemd or Docker.

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_DGRAM = 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN, _AND = 0x20, 0x15, 0x35, 0x06, 0x54
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
# Of io_uring, which opens sockets unseen, the user's keyrings, the memory that System V shares by number,
# tracing and programs in the kernel.
_X86_64 = (
    {"architecture": 0xC000003E, "socket": 41, "prlimit": 302, "socketpair": 53},
    (425, 248, 249, 250, 29, 30, 64, 68, 240, 298, 321, 101, 310, 311),
)
_ARM64 = (
    {"architecture": 0xC00000B7, "socket": 198, "prlimit": 261, "socketpair": 199},
    (425, 217, 218, 219, 194, 195, 190, 186, 180, 241, 280, 117, 270, 271),
)
_MACHINES = {"x86_64": _X86_64, "aarch64": _ARM64}


def has_filter() -> bool:
    """Whether the filter knows the system calls of this machine's processor."""
    return platform.machine() in _MACHINES


def system_call_filter(families: Sequence[int]) -> bytes:
    """A program for seccomp that refuses sockets of other families, and what reaches other programs."""
    numbers, refused = _MACHINES[platform.machine()]
    program: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, numbers["architecture"]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # The x32 variants of the same calls.
        (_AT_LEAST, 0, 1, 0x40000000),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    # A process may set limits of its own, not those of another program of this user.
    program += [
        (_EQUAL, 0, 4, numbers["prlimit"]),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
        # One end of a pair for datagrams could send to any Unix socket.
        (_EQUAL, 0, 5, numbers["socketpair"]),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 0, 1, SOCK_DGRAM),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 1, 0, numbers["socket"]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST),
    ]
    for family in families:
        program += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    program.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("HBBI", *one) for one in program)


def install_filter(program: bytes) -> None:
    """Filter the system calls of this process and its descendants. Raises OSError."""
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    filled = ctypes.create_string_buffer(head, len(head))
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(filled))
