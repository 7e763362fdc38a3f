"""Tries to leave its sandbox, once itself and once in a child that has left its session.

``attack.json`` in the project's folder has what to try. The result is what succeeded.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def attacks(given: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The attacks by name. Each raises OSError if it fails."""
    found: dict[str, Callable[[], object]] = {}
    for path in given["read"]:
        found[f"read {path}"] = partial(_open, path)
    for path in given["write"]:
        found[f"write {path}"] = partial(_write, Path(path) / "left-by-an-attack")
    for path in given["replace"]:
        found[f"truncate {path}"] = partial(os.truncate, path, 0)
        found[f"rename {path}"] = partial(os.rename, path, f"{path}.taken")
        found[f"remove {path}"] = partial(os.unlink, path)
        found[f"link to {path}"] = partial(_through_link, path)
        found[f"hard link to {path}"] = partial(os.link, path, f"linked-{os.getpid()}")
    for process in given["processes"]:
        found[f"environment of {process}"] = partial(_environment, process)
        found[f"files of {process}"] = partial(os.listdir, f"/proc/{process}/root/etc")
        found[f"memory of {process}"] = partial(_open, f"/proc/{process}/mem")
        found[f"signal to {process}"] = partial(os.kill, process, 0)
    for address in given["addresses"]:
        host, _colon, port = address.rpartition(":")
        found[f"connect to {address}"] = partial(socket.create_connection, (host, int(port)), 2)
        found[f"datagram to {address}"] = partial(_datagram, host, int(port))
    for path in given["sockets"]:
        found[f"connect to {path}"] = partial(_connect, path)
    return found


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _environment(process: int) -> None:
    if not Path(f"/proc/{process}/environ").read_bytes():
        raise PermissionError


def _write(path: Path) -> None:
    path.write_text("written")


def _through_link(path: str) -> None:
    link = Path(f"link-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    link.read_bytes()


def _datagram(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((host, port))
        sender.send(b"out")
        sender.settimeout(0.5)
        sender.recv(10)


def _connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def tried(given: dict[str, Any]) -> list[str]:
    """The names of the attacks that succeeded."""
    succeeded = []
    for name, attack in attacks(given).items():
        try:
            attack()
        except OSError:
            continue
        succeeded.append(name)
    return succeeded


def in_child(given: dict[str, Any]) -> list[str]:
    """The same, in a process that its parent has left, in another session, in another program."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            again = subprocess.run(
                [sys.executable, __file__, json.dumps(given)],
                stdout=subprocess.PIPE,
                check=False,
                env={"PATH": os.defpath},
            )
            os.write(writing, again.stdout)
            os._exit(0)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        return [f"child: {name}" for name in json.loads(file.read() or b'["it said nothing"]')]


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        print(json.dumps(tried(json.loads(sys.argv[1]))))
        sys.exit()
    import tiny

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    spool = tiny.begin()
    given = json.loads(Path("attack.json").read_text())
    succeeded = tried(given) + in_child(given)
    count = 2 * len(attacks(given))
    spool.write("ended", status="succeeded", result=json.dumps([count, succeeded]), error="", traceback="")
