"""An engine that starts a thread when it is imported."""

import threading


def load() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
