"""Messages in the active language."""

from django.utils.translation import gettext

from viewer.messages.message import UserFacingError, UserMessage


def translate(message: UserMessage | Exception | str | None) -> str:
    """Return the translated text of a message, or of an error that has one; empty for None.

    A text stays as it is, and an error without a message for people gives its own text.
    """
    if isinstance(message, UserFacingError):
        message = message.message
    if isinstance(message, UserMessage):
        return message.text(gettext)
    return str(message or "")
