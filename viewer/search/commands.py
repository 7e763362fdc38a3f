"""What the command palette leads to: pages, saved searches, locations, runs, jobs and checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from viewer.models import Checkpoint, Job, Location, Run, SavedSearch

# Characters of a query, commands of one group, and the shortest text that is compared with names and ids.
MAX_QUERY, MAX_COMMANDS, MIN_QUERY = 100, 6, 2


@dataclass(frozen=True, slots=True)
class Command:
    """A link. ``detail`` distinguishes it from links with the same label."""

    label: str
    address: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands of one kind under a title."""

    title: str
    commands: tuple[Command, ...]


def commands_for(query: str, user: int | None, *, can_run: bool) -> list[CommandGroup]:
    """The groups with a command that this text finds, without empty ones."""
    text = " ".join(query[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode().split())
    locations = list(_locations(text))
    groups = [
        CommandGroup(_("Pages"), tuple(_pages(text, can_run=can_run))),
        CommandGroup(_("Saved searches"), tuple(_saved(text, user))),
        CommandGroup(_("Locations"), tuple(_location_commands(locations, can_run=can_run))),
    ]
    if len(text) >= MIN_QUERY:
        groups += [
            CommandGroup(_("Runs"), tuple(_runs(text))),
            CommandGroup(_("Jobs"), tuple(_jobs(text))),
            CommandGroup(_("Checkpoints"), tuple(_checkpoints(text))),
        ]
    if text:
        address = reverse("search", query={"q": text})
        found = Command(_("Search all checkpoints for “%(text)s”") % {"text": text}, address)
        groups.append(CommandGroup(_("Search"), (found,)))
    return [group for group in groups if group.commands]


def _pages(text: str, *, can_run: bool) -> Iterator[Command]:
    pages = {
        "home": _("Home"),
        "locations": _("Locations"),
        "jobs": _("Jobs"),
        "inbox": _("Inbox"),
        "search": _("Search"),
    }
    if can_run:
        pages["shares"] = _("Share links")
    for name, label in pages.items():
        if has_words(label, text):
            yield Command(label, reverse(name))


def has_words(label: str, text: str) -> bool:
    """Whether a label has all words of a text, in any order and case."""
    return all(word in label.casefold() for word in text.casefold().split())


def _saved(text: str, user: int | None) -> Iterator[Command]:
    for search in SavedSearch.objects.filter(user=user, name__icontains=text)[:MAX_COMMANDS]:
        yield Command(search.name, search.get_absolute_url())


def _locations(text: str) -> list[Location]:
    found = Location.objects.filter(path__icontains=text) if text else Location.objects.all()
    return list(found.order_by("-imported_at")[:MAX_COMMANDS])


def _location_commands(locations: list[Location], *, can_run: bool) -> Iterator[Command]:
    for location in locations:
        yield Command(location.name, location.get_absolute_url(), location.path)
        if can_run:
            label = _("New run in %(location)s") % {"location": location.name}
            yield Command(label, reverse("new-run", args=[location.uid]))


def _runs(text: str) -> Iterator[Command]:
    runs = Run.objects.top_level().filter(Q(name__icontains=text) | Q(key__startswith=text))
    for run in runs.select_related("location")[:MAX_COMMANDS]:
        at = f"{run.last_at:%Y-%m-%d %H:%M}" if run.last_at else ""
        yield Command(str(run), run.get_absolute_url(), f"{run.location.name} {at}".strip())


def _jobs(text: str) -> Iterator[Command]:
    jobs = Job.objects.filter(Q(branch__icontains=text) | Q(pk__startswith=text.replace("-", "").lower()))
    for job in jobs.order_by("-created_at")[:MAX_COMMANDS]:
        yield Command(str(job), job.get_absolute_url(), str(job.get_status_display()))


def _checkpoints(text: str) -> Iterator[Command]:
    # A range of the index by location and id.
    locations = Location.objects.order_by().values("pk")
    rows = Checkpoint.objects.filter(location__in=locations, checkpoint_id__gte=text)
    rows = rows.filter(checkpoint_id__lt=f"{text}\U0010ffff").order_by("checkpoint_id")
    for row in rows.select_related("run")[:MAX_COMMANDS]:
        yield Command(row.checkpoint_id, row.get_absolute_url(), f"{row.run} {row.branch}")
