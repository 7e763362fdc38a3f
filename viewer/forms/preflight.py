"""What a person accepts and answers before a start, as a part of a form."""

from viewer.forms.fields import Sent
from viewer.launching.requests import Accepted

ACCEPTED = "accepted"
ACCEPT_REDACTED = "accept-hidden"
# The buttons of the preflight check: start it, and accept the effects that it listed.
CHECK = "check"
ACCEPT_EFFECTS = "accept-effects"
ANSWER = "match:"


def read_accepted(sent: Sent) -> Accepted:
    """The digests of the redacted parts and losses that the person accepted."""
    sent = sent or {}
    return Accepted(redacted_parts=sent.get(ACCEPT_REDACTED, ""), losses=sent.get(ACCEPTED, ""))


def read_answers(sent: Sent) -> dict[str, str]:
    """The chosen task or agent of the project, by the id of the saved one."""
    return {name.removeprefix(ANSWER): text for name, text in (sent or {}).items() if name.startswith(ANSWER)}
