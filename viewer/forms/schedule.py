"""The part of a form for the start time: now, or a time in the server's time zone."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.forms.fields import Sent
from viewer.launching.option_values import parse_start_time
from viewer.launching.options import short_time

START, START_AT = "start", "start_at"
LATER = "later"


@dataclass(slots=True)
class Timing:
    """The part of a form. ``at`` is the start time, None for now."""

    is_later: bool = False
    text: str = ""
    at: datetime | None = None
    error: str = ""

    @property
    def zone(self) -> str:
        """The name of the server's time zone."""
        return timezone.get_current_timezone_name()

    @property
    def server_time(self) -> datetime:
        return timezone.localtime()

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        """The id, label and message of each invalid field."""
        return [("start-at", _("Start"), self.error)] if self.error else []

    @property
    def summary(self) -> str:
        """A short label of what is chosen."""
        return short_time(self.at) if self.at else _("now")


def read_timing(sent: Sent) -> Timing:
    """The part, first shown if ``sent`` is None."""
    text = "" if sent is None else sent.get(START_AT, "").strip()
    # A typed time applies whatever is chosen: starting too late is better than starting now.
    if sent is None or not (text or sent.get(START) == LATER):
        return Timing()
    timing = Timing(is_later=True, text=text)
    try:
        timing.at = parse_start_time(timing.text)
    except ValueError as error:
        timing.error = str(error)
    return timing
