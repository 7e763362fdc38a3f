"""A stand-in for GitHub and Google on this machine, since the real ones cannot be had here.

It speaks those of their endpoints that django-allauth asks, as their documentation describes them, and
requires the client's secret and PKCE. Only the answers are ours: what it says about a person is set by tests.
"""

import hashlib
import json
import secrets
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt

CLIENT_ID, CLIENT_SECRET = "forkline", "its secret"
ISSUER = "https://accounts.google.com"


@dataclass
class Providers:
    """``github`` and ``google`` are who logs in next, ``emails`` the addresses that GitHub has of them."""

    address: str = ""
    github: dict[str, Any] = field(default_factory=dict)
    emails: list[dict[str, Any]] = field(default_factory=list)
    google: dict[str, Any] = field(default_factory=dict)
    # By code: the challenge that its verifier has to match.
    codes: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def agreed(self, query: dict[str, str]) -> str:
        """Return where a person is sent back to after they have agreed."""
        code = secrets.token_hex()
        assert query["code_challenge_method"] == "S256" and query["response_type"] == "code"
        self.codes[code] = query["code_challenge"]
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token_for(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the access token for a code, once."""
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).decode().rstrip("=")
        is_client = form.get("client_id") == CLIENT_ID and form.get("client_secret") == CLIENT_SECRET
        if self.codes.pop(form.get("code", ""), None) != challenge or not is_client:
            self.refused.append(form.get("code", ""))
            return None
        token = secrets.token_hex()
        self.tokens.add(token)
        return {"access_token": token, "token_type": "bearer", "scope": "user:email"}


@contextmanager
def running_providers() -> Iterator[Providers]:
    """Serve on this machine within the block."""
    state = Providers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(at.query).items()}
            if at.path in ("/login/oauth/authorize", "/o/oauth2/v2/auth"):
                self.send_response(302)
                self.send_header("Location", state.agreed(query))
                self.end_headers()
                return
            answer: Any = {"/user": state.github, "/user/emails": state.emails}.get(at.path)
            is_known = self.headers.get("Authorization", "").partition(" ")[2] in state.tokens
            self.answer(answer if is_known else {"message": "Bad credentials"}, 200 if is_known else 401)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found = state.token_for({name: values[0] for name, values in parse_qs(body).items()})
            if found is None:
                # GitHub answers with 200.
                self.answer({"error": "bad_verification_code"}, 400 if self.path == "/token" else 200)
                return
            if self.path == "/token":
                # Not verified: it comes from the provider itself, over TLS.
                claims = {"iss": ISSUER, "aud": CLIENT_ID, "exp": 2**31, "iat": 0, **state.google}
                found["id_token"] = jwt.encode(claims, "x" * 32, "HS256")
            self.answer(found, 200)

        def answer(self, document: Any, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
