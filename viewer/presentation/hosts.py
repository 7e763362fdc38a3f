"""What pages and the terminal show of hosts. With one host, nothing of it is shown."""

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.formats import duration
from viewer.models import Host

# Seconds of difference between two clocks that change nothing a person sees.
MAX_CLOCK_DIFFERENCE = 5.0


def warnings_of(host: Host) -> list[str]:
    """Return sentences about a clock or a version that differs from the others'."""
    found = []
    difference = host.clock_difference or 0.0
    if abs(difference) > MAX_CLOCK_DIFFERENCE:
        ahead = _("Its clock is %(time)s ahead of the database's. Set it: times and starts are wrong.")
        behind = _("Its clock is %(time)s behind the database's. Set it: times and starts are wrong.")
        found.append((ahead if difference > 0 else behind) % {"time": duration(abs(difference))})
    others = {one.version for one in Host.objects.live().exclude(pk=host.pk)} | {settings.VERSION}
    if host.version and others != {host.version}:
        text = _("It runs Forkline %(version)s, others run %(others)s. Install the same version everywhere.")
        names = ", ".join(sorted(others - {host.version, ""}))
        found.append(text % {"version": host.version, "others": names})
    return found
