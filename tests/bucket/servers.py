"""An S3-compatible server of the tests, and a proxy in front of it that fails in several ways."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

from scripts.served_demo import free_port
from tests.waiting import wait_until
from viewer.cli.supervision import is_taken

REGION = "us-east-1"
# How a server that checks credentials is set up, before it checks them.
SETUP_REQUESTS = 3
READ_ONLY = """
{"Version": "2012-10-17",
 "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}
"""


class Bucket:
    """A server with one bucket, as a process. If it ``checks``, its credentials may only read."""

    def __init__(self, *, checks: bool = False) -> None:
        self.port = free_port()
        environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_REQUESTS + 1)}
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            command, env=environment if checks else None, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: is_taken("127.0.0.1", self.port))
        self.key, self.secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
        if checks:
            iam = self.client("iam")
            iam.create_user(UserName="reader")
            iam.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=READ_ONLY)
            made = iam.create_access_key(UserName="reader")["AccessKey"]
        self.create("copies")
        if checks:
            self.key, self.secret = made["AccessKeyId"], made["SecretAccessKey"]

    def client(self, service: str = "s3") -> Any:
        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def create(self, name: str) -> None:
        self.client().create_bucket(Bucket=name)

    def variables(self, port: int = 0) -> dict[str, str]:
        """The environment variables for the bucket, or for a proxy in front of it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
        }

    def objects(self, name: str = "copies") -> dict[str, bytes]:
        """The objects by their keys."""
        client = self.client()
        listed = client.list_objects_v2(Bucket=name).get("Contents", [])
        found = {one["Key"]: client.get_object(Bucket=name, Key=one["Key"]) for one in listed}
        return {key: one["Body"].read() for key, one in found.items()}

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Proxy:
    """A proxy in front of a bucket. Tests change what it does with the next requests."""

    def __init__(self, target: int) -> None:
        self.target = target
        # Seconds before each answer, bytes after which an answer breaks off, and what follows a request.
        self.delay = 0.0
        self.cut: int | None = None
        self.after: Callable[[str], object] = lambda method: None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                proxy.forward(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        time.sleep(self.delay)
        connection = HTTPConnection("127.0.0.1", self.target)
        connection.request(request.command, request.path, body, dict(request.headers))
        answer = connection.getresponse()
        data = answer.read()
        self.after(request.command)
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if self.cut is None:
            request.wfile.write(data)
        else:
            request.wfile.write(data[: self.cut])
            request.close_connection = True

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
