"""Finds out which process listens on a port of this machine."""

import socket

MAX_COMMAND_LENGTH = 120


def is_taken(host: str, port: int) -> bool:
    """Return whether a server could not listen on the port."""
    with socket.socket() as probe:
        # As the server does: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def holder_of(port: int) -> str:
    """Return the command and id of the process that listens on the port; empty if they are not visible."""
    import psutil

    try:
        listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        pids = [one.pid for one in listening if one.laddr and one.laddr.port == port and one.pid]
        command = " ".join(psutil.Process(pids[0]).cmdline()) if pids else ""
    except psutil.Error:
        return ""
    shown = "".join(letter if letter.isprintable() else "�" for letter in command[:MAX_COMMAND_LENGTH])
    return f"{shown} (process {pids[0]})" if pids else ""
