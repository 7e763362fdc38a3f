"""When a run starts, as a part of a form: as soon as it can, or at a time of the server's clock."""

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
    """The part of a form. ``at`` is the moment that was typed, None for as soon as it can."""

    is_later: bool = False
    text: str = ""
    at: datetime | None = None
    error: str = ""

    @property
    def zone(self) -> str:
        """The server's time zone, by its name."""
        return timezone.get_current_timezone_name()

    @property
    def server_time(self) -> datetime:
        return timezone.localtime()

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        """What must be mended: the field's id, its label, and the words."""
        return [("start-at", _("Start"), self.error)] if self.error else []

    @property
    def summary(self) -> str:
        """What is chosen, in a few words."""
        return short_time(self.at) if self.at else _("now")


def read_timing(sent: Sent) -> Timing:
    """The part as it is first shown (``sent`` is None) or was sent."""
    text = "" if sent is None else sent.get(START_AT, "").strip()
    # A time that was typed holds, whatever is ticked: rather too late than at once.
    if sent is None or not (text or sent.get(START) == LATER):
        return Timing()
    timing = Timing(is_later=True, text=text)
    try:
        timing.at = parse_start_time(timing.text)
    except ValueError as error:
        timing.error = str(error)
    return timing
