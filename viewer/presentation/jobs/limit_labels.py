"""The texts of limits and their usage, for pages and the terminal."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.formats.amounts import count_text
from viewer.jobs.limits.usage import Limit, limit_in, usage_of
from viewer.models import Job

# Why a run was stopped, for each kind of limit.
STOPPED: dict[str, str | Promise] = {
    "job": gettext_lazy("Stopped at its limit of %(amount)s."),
    "sweep": gettext_lazy("Stopped at the limit of %(amount)s for all its variations."),
    "project": gettext_lazy("Stopped at the project's limit of %(amount)s a day."),
    "day": gettext_lazy("Stopped at the limit of %(amount)s a day for all jobs."),
}


def amount(measure: str, number: float) -> str:
    """An amount with its unit: ``20,000 tokens``, ``90 seconds``, ``10 minutes``."""
    if measure == "seconds" and number >= 120 and number % 60 == 0:
        measure, number = "minutes", number / 60
    number = int(number) if number == int(number) else round(number, 1)
    shown = {"number": count_text(number)}
    # A fraction has the plural of several.
    count = int(number) if number == int(number) else 2
    labels = {
        "tokens": ngettext("%(number)s token", "%(number)s tokens", count),
        "steps": ngettext("%(number)s step", "%(number)s steps", count),
        "seconds": ngettext("%(number)s second", "%(number)s seconds", count),
        "minutes": ngettext("%(number)s minute", "%(number)s minutes", count),
    }
    return labels[measure] % shown


def usage_label(limit: Limit, used: float) -> str:
    """The used part of a limit: ``1,250 of 20,000 tokens``, ``35 seconds of 10 minutes``."""
    number = count_text(int(used))
    shown = amount(limit.measure, int(used)) if limit.measure == "seconds" else number
    return _("%(used)s of %(most)s") % {"used": shown, "most": amount(limit.measure, limit.max_amount)}


def limit_label(job: Job) -> str:
    """A sentence that says which limit has stopped the job. Empty if none has."""
    if not job.limit_hit:
        return ""
    limit = limit_in(job.limit_hit)
    if limit is None:
        return _("Stopped at a limit that it shares with other runs.")
    stopped = str(STOPPED[limit.whose]) % {"amount": amount(limit.measure, limit.max_amount)}
    used = usage_of(Job.objects.filter(pk=job.pk))[limit.measure] if limit.whose == "job" else 0
    if used <= limit.max_amount:
        return stopped
    text = _("It had used %(used)s, %(more)s more.")
    passed = amount(limit.measure, round(used - limit.max_amount, 1))
    return f"{stopped} {text % {'used': amount(limit.measure, round(used, 1)), 'more': passed}}"
