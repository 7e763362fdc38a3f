"""What stands in an address, which anybody may have written."""


def number_in(text: str) -> int | None:
    """The whole number from 0 on that the text is; None for anything else, and for a senselessly long one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
