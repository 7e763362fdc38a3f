"""A MariaDB server for the rows: its data and socket are in one temporary folder, and nothing outlives it."""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

SECONDS = 60


@contextmanager
def running() -> Iterator[Path]:
    """Start a server, and return its socket, at which ``root`` needs no password."""
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        folder, user = Path(name), pwd.getpwuid(os.geteuid()).pw_name
        data, socket = folder / "data", folder / "socket"
        options = ["--no-defaults", f"--datadir={data}", f"--user={user}"]
        install = ["mariadb-install-db", *options, "--auth-root-authentication-method=normal"]
        environment = {**os.environ, "PATH": _path()}
        subprocess.run(install, env=environment, check=True, stdout=subprocess.DEVNULL)
        command = ["mariadbd", *options, f"--socket={socket}", "--skip-networking"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_until(socket.exists, seconds=SECONDS)
            yield socket
        finally:
            server.kill()
            server.wait()


def _path() -> str:
    """The PATH with the folder of servers, which that of an account often lacks."""
    return os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
