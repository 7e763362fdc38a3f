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
from pathlib import Path
from typing import Any


def attacks(given: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The attacks by name. Each raises OSError if it fails."""
    found: dict[str, Callable[[], object]] = {}
    for path in given["read"]:
        found[f"read {path}"] = lambda path=path: os.close(os.open(path, os.O_RDONLY))
    for path in given["write"]:
        found[f"write {path}"] = lambda path=path: _write(Path(path) / "left-by-an-attack")
    for path in given["replace"]:
        found[f"truncate {path}"] = lambda path=path: os.truncate(path, 0)
        found[f"rename {path}"] = lambda path=path: Path(path).rename(f"{path}.taken")
        found[f"remove {path}"] = lambda path=path: Path(path).unlink()
        found[f"link to {path}"] = lambda path=path: _through_link(path)
        found[f"hard link to {path}"] = lambda path=path: os.link(path, f"linked-{os.getpid()}")
    for process in given["processes"]:
        found[f"environment of {process}"] = lambda process=process: (
            Path(f"/proc/{process}/environ").read_bytes()[:1] or _refused()
        )
        found[f"files of {process}"] = lambda process=process: list(
            Path(f"/proc/{process}/root/etc").iterdir()
        )
        found[f"memory of {process}"] = lambda process=process: open(f"/proc/{process}/mem", "rb").close()
        found[f"signal to {process}"] = lambda process=process: os.kill(process, 0)
    for address in given["addresses"]:
        host, _colon, port = address.rpartition(":")
        found[f"connect to {address}"] = lambda host=host, port=int(port): socket.create_connection(
            (host, port), 2
        )
        found[f"datagram to {address}"] = lambda host=host, port=int(port): _datagram(host, port)
    for path in given["sockets"]:
        found[f"connect to {path}"] = lambda path=path: _connect(path)
    return found


def _refused() -> bytes:
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
