"""Values in URLs, which anybody may have written."""

from viewer.validation import InvalidInput, whole_number


def number_in(text: str, max_digits: int = 9) -> int | None:
    """Return the text as an integer of at most ``max_digits`` digits, at least 0; None for any other text."""
    try:
        return whole_number(text, 0, 10**max_digits - 1)
    except InvalidInput:
        return None
