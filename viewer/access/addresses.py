"""Values in URLs, which anybody may have written."""


def number_in(text: str) -> int | None:
    """Return the text as an integer of up to nine digits, at least 0; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
