"""Messages in the language of whoever reads them."""

from django.utils.translation import gettext

from viewer.messages.message import UserFacingError, UserMessage


def translate(message: UserMessage | Exception | None) -> str:
    """The text of a message or of the error that carries it, translated; empty for None.

    An error without a message for people gives its own text.
    """
    if isinstance(message, UserFacingError):
        message = message.message
    if isinstance(message, UserMessage):
        return message.text(gettext)
    return str(message or "")
