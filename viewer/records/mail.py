"""Sends mail to people about their accounts, without making a page wait for the mail server."""

import logging
import queue
import threading
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from viewer.models.annotations import chosen_language

logger = logging.getLogger(__name__)
# Mail that waits while the mail server is slow. Further mail is dropped.
MAX_WAITING = 100
Mail = tuple[str, str, str]
_waiting: queue.Queue[Mail] = queue.Queue(MAX_WAITING)
_starting = threading.Lock()
_is_started = False

# What was changed about an account, as its person reads it.
PASSWORD = gettext_lazy("Your password was changed.")
SECOND_FACTOR = gettext_lazy("A second factor of your account was added or removed.")
FACTORS_REMOVED = gettext_lazy("An admin removed the second factors of your account.")
ADDRESS = gettext_lazy("Another mail address was set for your account.")


def has_mail() -> bool:
    """Whether a mail server is configured."""
    return bool(settings.EMAIL_HOST)


def send_soon(subject: str, text: str, address: str) -> None:
    """Send a mail from another thread, so that the time of a response says nothing about an account.

    It is lost if the server ends at this moment: who waits for it asks again.
    """
    global _is_started  # noqa: PLW0603
    try:
        _waiting.put_nowait((subject, text, address))
    except queue.Full:
        logger.warning("Mail was dropped, because too much of it waits for the mail server.")
        return
    with _starting:
        if not _is_started:
            threading.Thread(target=_send_all, name="mail", daemon=True).start()
            _is_started = True


def notify_of_change(person: User, change: str, address: str = "") -> None:
    """Notify a person that how they log in was changed, at this address or the one of their account."""
    to = address or person.email
    if not (to and has_mail()):
        return
    with override(chosen_language(person) or settings.LANGUAGE_CODE):
        origin = settings.ALLOWED_ORIGINS[0]
        warning = _("If you did not do or ask for this, contact an admin of %s at once.") % origin
        send_soon("Forkline: " + _("Your account"), f"{change}\n\n{warning}\n", to)


def send_waiting() -> None:
    """Wait until the mail of this process is sent or refused, such as before a command ends."""
    _waiting.join()


def _send_all() -> None:
    while True:
        subject, text, address = _waiting.get()
        try:
            send_mail(subject, text, None, [address])
        except (OSError, SMTPException, ValueError) as failure:
            # The text of a mail server may quote what it received, such as a link.
            logger.warning("Mail about an account was not accepted (%s).", type(failure).__name__)
        except Exception:
            logger.exception("Sending mail")
        finally:
            _waiting.task_done()
