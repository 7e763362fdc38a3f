"""Where a location or a job is, on pages. Nothing is shown if there is only one host."""

from collections.abc import Mapping

from django import template

from viewer.models import Job, Location
from viewer.presentation.hosts import ShownHost, hosts_if_several

register = template.Library()


@register.inclusion_tag("hosts/_where.html")
def where(subject: Location | Job, hosts: Mapping[int, ShownHost] | str = "") -> dict[str, ShownHost | None]:
    """Show the host of a location or job, and whether it is away. A page with many passes all ``hosts``."""
    location = subject.location if isinstance(subject, Job) else subject
    found = hosts_if_several() if isinstance(hosts, str) else hosts
    return {"shown": found.get(location.host_id)}
