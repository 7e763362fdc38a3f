"""Find secrets in texts, JSON values and JSON bytes, and replace them with a marker.

Other packages call ``texts`` and ``values``. ``json_bytes`` redacts JSON bytes and decodes few of them.
``credentials``, ``named_values``, ``pairs`` and ``vendor_tokens`` find secrets; ``names`` says what a
field's name means, and ``shapes`` what a value's form means.
"""

import threading

# The text that replaces a secret.
MARKER = "[redacted]"


class Hidden:
    """The number of secrets that this process has replaced."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Count secrets, also from several threads."""
        with self._lock:
            self.count += number


hidden = Hidden()
