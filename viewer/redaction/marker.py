"""The text that replaces a secret."""

MARKER = "[redacted]"
