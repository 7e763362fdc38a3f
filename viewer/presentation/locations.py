"""Locations in lists and choices, and what a deletion has deleted of one."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.formats import count_text
from viewer.host_requests import Pruned
from viewer.models import Location, Problem, Run
from viewer.presentation.listing import Listing, Statuses, choices, filter_in

LOCATIONS_A_PAGE = 50
# Locations that the home page and choices show; the others are found by their path.
MAX_OFFERED = 50
STATUSES: Statuses = {
    "": gettext_lazy("All"),
    "unreadable": gettext_lazy("Cannot be read"),
    "problems": gettext_lazy("With problems"),
}


def location_list(address: QueryDict) -> Listing[Location]:
    """Return the page of locations for an address, with their counts."""
    wanted = filter_in(address, STATUSES, (), "")
    found = Location.objects.matching(wanted.query) if wanted.query else Location.objects.all()
    if wanted.only == "unreadable":
        found = found.filter(read_error__isnull=False)
    elif wanted.only == "problems":
        found = found.filter(Exists(Problem.objects.filter(location=OuterRef("pk"))))
    page = Paginator(found.order_by("path", "pk"), LOCATIONS_A_PAGE).get_page(address.get("page"))
    # Counts only the rows of this page.
    keys = [location.pk for location in page.object_list]
    shown = Location.objects.with_counts().select_related("pool").filter(pk__in=keys)
    page.object_list = shown.order_by("path", "pk")
    return Listing(page=page, filter=wanted, headings=[], choices=choices(STATUSES, wanted.only, address))


@dataclass(frozen=True, slots=True)
class LocationsAtHome:
    """The ``shown`` locations, and the numbers of all and of those that cannot be read."""

    shown: list[Location]
    count: int
    unreadable: int

    @property
    def is_partial(self) -> bool:
        return self.count > len(self.shown)


def locations_at_home() -> LocationsAtHome:
    """Return the locations with the newest runs, with their counts."""
    counts = Location.objects.aggregate(all=Count("pk"), unreadable=Count("pk", Q(read_error__isnull=False)))
    shown = Location.objects.with_counts().select_related("pool")
    shown = shown.filter(pk__in=_newest_keys(Location.objects.all()))
    return LocationsAtHome(list(shown), counts["all"], counts["unreadable"])


def offered(locations: QuerySet[Location]) -> QuerySet[Location]:
    """Return those of these locations with the newest runs, by path."""
    return Location.objects.filter(pk__in=_newest_keys(locations))


def by_newest_run(locations: QuerySet[Location]) -> QuerySet[Location]:
    """Return these locations, those with the newest runs first."""
    runs = Run.objects.filter(location=OuterRef("pk"), last_at__isnull=False).order_by("-last_at")
    newest = locations.alias(newest=Subquery(runs.values("last_at")[:1]))
    return newest.order_by(F("newest").desc(nulls_last=True), "-pk")


def _newest_keys(locations: QuerySet[Location]) -> QuerySet[Location, int]:
    return by_newest_run(locations).values_list("pk", flat=True)[:MAX_OFFERED]


# What a deletion has deleted, in sentences for the page and the terminal.


# Checkpoints that are named.
MAX_NAMED = 3


def deleted_texts(location: Location, done: Pruned) -> list[str]:
    """Return a sentence that names the deleted checkpoints, the first ones at least, and one for copies."""
    texts, count = [], len(done.deleted)
    if done.deleted:
        text = ngettext(
            "Deleted %(count)s checkpoint of %(location)s: %(names)s.",
            "Deleted %(count)s checkpoints of %(location)s: %(names)s.",
            count,
        )
        names = ", ".join(done.deleted[:MAX_NAMED])
        if count > MAX_NAMED:
            names = _("%(ids)s and %(count)s more") % {
                "ids": names,
                "count": count_text(count - MAX_NAMED),
            }
        texts.append(text % {"count": count_text(count), "location": location.name, "names": names})
    if done.copies:
        text = ngettext(
            "Deleted %(count)s stored copy of %(location)s.",
            "Deleted %(count)s stored copies of %(location)s.",
            done.copies,
        )
        texts.append(text % {"count": count_text(done.copies), "location": location.name})
    return texts or [_("Nothing was deleted.")]
