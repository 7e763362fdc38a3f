"""Sends the messages that are due. Of several workers, the one that claims a message sends it."""

import logging
from contextlib import AbstractContextManager
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override

from viewer.data_folder.changes import in_background
from viewer.host.notifying.webhooks import NotDelivered, deliver
from viewer.models import Notification, NotificationTarget
from viewer.models.annotations import chosen_language
from viewer.records.notifications import collect, may_be_sent

logger = logging.getLogger(__name__)

# Changes within this time are looked through once.
QUIET_SECONDS = 3.0
# How often messages are tried again.
RETRY_SECONDS = 30.0


def notifying() -> AbstractContextManager[None]:
    """Send the messages that are due, in a thread within the block."""
    return in_background("notifying", send_some, QUIET_SECONDS, RETRY_SECONDS)


def send_some() -> bool:
    """Send one of the messages that are due. Return whether there may be more."""
    if not NotificationTarget.objects.exists():
        return False
    message = _next()
    if message is None:
        collect()
        message = _next()
    if message and message.claim():
        send(message)
    return message is not None


def _next() -> Notification | None:
    due = Notification.objects.filter(due_at__lte=timezone.now(), sent_at=None)
    return due.select_related("target__user").order_by("due_at", "pk").first()


def send(message: Notification) -> None:
    """Send a claimed message, and record the result."""
    target = message.target
    link = settings.ALLOWED_ORIGINS[0] + message.path
    if not target.user.is_active:
        message.record_failure("the account is deactivated", is_final=True)
        return
    if not may_be_sent(message):
        message.record_failure("may no longer be seen", is_final=True)
        return
    try:
        if target.kind == NotificationTarget.Kind.WEBHOOK:
            deliver(target.address, target.secret, message.identifier, message.event, link)
        else:
            _mail(target, message, link)
    except NotDelivered as failure:
        message.record_failure(str(failure), is_final=failure.is_final)
    except (OSError, SMTPException, ValueError) as failure:
        # The text of a mail server may quote what it received.
        message.record_failure(f"not accepted ({type(failure).__name__})")
    except Exception as failure:
        logger.exception("sending a notification")
        message.record_failure(type(failure).__name__)
    else:
        message.record_sent()


def _mail(target: NotificationTarget, message: Notification, link: str) -> None:
    """Send a mail with the link, and nothing that a run has written."""
    if not settings.EMAIL_HOST:
        raise NotDelivered("no mail server is configured")
    with override(chosen_language(target.user) or settings.LANGUAGE_CODE):
        subject = str(Notification.Event(message.event).label)
        settings_page = settings.ALLOWED_ORIGINS[0] + reverse("notifications")
        text = f"{subject}\n\n{link}\n\n" + _("Choose what you receive: %s") % settings_page + "\n"
    send_mail(f"Forkline: {subject}", text, None, [target.address])
