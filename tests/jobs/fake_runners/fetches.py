"""Connects to the addresses in the file ``addresses``. The result is what each server says, or the error."""

import json
import socket
from pathlib import Path

import tiny


def said(address: str) -> str:
    """What a server sends first, or the error."""
    host, _colon, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 10) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(4096), b"")).decode()
    except OSError as error:
        return type(error).__name__


if __name__ == "__main__":
    spool = tiny.begin()
    found = {address: said(address) for address in Path("addresses").read_text().split()}
    spool.write("ended", status="succeeded", result=json.dumps(found), error="", traceback="")
