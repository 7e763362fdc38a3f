"""Opens ten connections to the address in ``addresses``, and holds them while it uses the processor."""

import socket
import time
from pathlib import Path

import tiny

if __name__ == "__main__":
    tiny.begin()
    host, _colon, port = Path("addresses").read_text().rpartition(":")
    held = [socket.create_connection((host, int(port))) for _number in range(10)]
    for client in held:
        client.sendall(b"held")
    Path("connected").touch()
    # Until the limit of processor time, or a cancellation. Nothing else would end it if the test is killed.
    end = time.monotonic() + 300
    while time.monotonic() < end:
        pass
