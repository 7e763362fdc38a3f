"""Parsing of a run's options: its limits, start time, models, and how many checkpoints it keeps."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer import validation
from viewer.engines.protocol import Contents
from viewer.launching.requests.values import InvalidValue
from viewer.redaction.marker import MARKER
from viewer.validation import InvalidInput

MAX_LIMIT = 10**12
MAX_KEPT_CHECKPOINTS = 100_000
MAX_MODEL_CHARACTERS = 200
# The key of ``Options.models`` for every agent.
ALL_AGENTS = "*"
# One agent shares no prompt prefix with another.
MIN_AGENTS_TO_WARM_UP = 2
# Ways to warm the prompt cache, with their labels.
STRATEGIES: dict[str, str | Promise] = {
    "parallel": gettext_lazy("four agents at a time"),
    "sequential": gettext_lazy("one agent after the other"),
    "shared_prefix": gettext_lazy("first the common prefix, then four agents at a time"),
}
# The format in which browsers send a local time. It has no seconds, so the current minute is accepted.
TIME_FORMAT = "%Y-%m-%dT%H:%M"
MINUTE = timedelta(minutes=1)


def parse_limit(measure: str, text: str) -> float:
    """The limit as a number above 0; an integer unless ``measure`` is seconds. Raises InvalidValue."""
    digits = "".join(text.split()).replace("_", "").replace(",", "")
    try:
        number = validation.number(digits, 0, MAX_LIMIT)
    except InvalidInput:
        number = 0
    if not number:
        raise InvalidValue(_("This must be a number above 0, or empty for no limit."))
    if measure != "seconds" and number != int(number):
        raise InvalidValue(_("This must be a whole number."))
    return number if measure == "seconds" else int(number)


def parse_start_time(text: str) -> datetime:
    """The start time in UTC, from an ISO time. A time without a zone is in the server's time zone.

    Raises InvalidValue for a time in the past and for one that the clock skips.
    """
    if not text:
        raise InvalidValue(_("Enter a start time."))
    try:
        moment = datetime.fromisoformat(text)
        if timezone.is_naive(moment):
            moment = _in_server_zone(moment)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = _("This is not a valid time. Write it as %(example)s.")
        raise InvalidValue(message % {"example": timezone.localtime().strftime(TIME_FORMAT)}) from error
    if moment < timezone.now() - MINUTE:
        raise InvalidValue(_("This time has passed."))
    return moment


def parse_model(name: str) -> str:
    """The name of a model. Raises InvalidValue."""
    if len(name) > MAX_MODEL_CHARACTERS or not name.isprintable() or any(letter.isspace() for letter in name):
        raise InvalidValue(_("A model's name is one word, such as openai/gpt-4.1-mini."))
    if MARKER in name:
        raise InvalidValue(_("%(marker)s is not a model's name.") % {"marker": MARKER})
    return name


def parse_kept_checkpoints(text: str) -> int:
    """How many of a run's own checkpoints are kept, at least 1. Raises InvalidValue."""
    try:
        return validation.whole_number(text, 1, MAX_KEPT_CHECKPOINTS)
    except InvalidInput:
        message = _("This must be a whole number of at least 1, or empty to keep all.")
        raise InvalidValue(message) from None


def agent_roles(contents: Contents) -> list[str]:
    """The roles of the checkpoint's agents, each once."""
    return list(dict.fromkeys(agent.role for agent in contents.agents if agent.role))


def _in_server_zone(moment: datetime) -> datetime:
    zone = timezone.get_current_timezone()
    aware = moment.replace(tzinfo=zone)
    if aware.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
        raise ValueError("this time does not exist on that day")
    return aware
