"""Find secrets in texts, JSON values and JSON bytes, and replace them with a marker.

Other packages call ``texts`` and ``values``. ``json_bytes`` redacts JSON bytes and decodes few of them.
``credentials``, ``named_values``, ``pairs`` and ``vendor_tokens`` find secrets; ``names`` says what a
field's name means, and ``shapes`` what a value's form means.
"""

# The text that replaces a secret.
MARKER = "[redacted]"
