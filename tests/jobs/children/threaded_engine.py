"""An engine that starts a thread as it is loaded."""

import threading


def load() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
