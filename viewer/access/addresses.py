"""Values in URLs, which anybody may have written."""


def number_in(text: str, max_digits: int = 9) -> int | None:
    """Return the text as an integer of at most ``max_digits`` digits, at least 0; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= max_digits else None
