"""Marks texts for translation without translating them."""


def gettext_noop(text: str) -> str:
    """The text itself. ``makemessages`` collects what this is called with."""
    return text
