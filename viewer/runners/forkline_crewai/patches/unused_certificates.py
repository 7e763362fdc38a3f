"""Load no certificates for a model that is created only to see whether it can be.

Patches: ssl.SSLContext.load_verify_locations, in one thread
Versions: 1.14.2 and newer
Why: A model of the engine creates its HTTP clients, which read all certificates. That takes 40 ms of each
    start of a run. Clients without certificates trust no server: discard them.
Test: tests/runners/runs/test_model_providers.py::test_clients_that_are_discarded_load_no_certificates
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def skipped() -> Iterator[None]:
    """In this block, have TLS contexts that this thread creates load no certificates."""
    context_class: Any = ssl.SSLContext
    load, thread = context_class.load_verify_locations, threading.get_ident()

    def load_in_other_threads(context: ssl.SSLContext, *arguments: Any, **named: Any) -> None:
        if threading.get_ident() != thread:
            load(context, *arguments, **named)

    context_class.load_verify_locations = load_in_other_threads
    try:
        yield
    finally:
        context_class.load_verify_locations = load
