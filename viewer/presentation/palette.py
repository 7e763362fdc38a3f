"""What the command palette leads to: pages, saved searches, locations, runs, jobs and checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from viewer.formats import moment_text
from viewer.models import (
    Access,
    Checkpoint,
    Host,
    Job,
    Location,
    Right,
    Run,
    SavedSearch,
    access_of,
)
from viewer.presentation.locations import by_newest_run
from viewer.records.permissions import may, may_everywhere

# Characters of a query, commands of one group, and the shortest text that is compared with names and ids.
MAX_QUERY, MAX_COMMANDS, MIN_QUERY = 100, 6, 2
# Locations whose names are compared with a query.
MAX_SEARCHED_LOCATIONS = 500


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """A link. ``detail`` distinguishes it from links with the same label."""

    label: str
    address: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands of one kind under a title."""

    title: str
    commands: tuple[PaletteCommand, ...]


def commands_for(query: str, user: User | AnonymousUser) -> list[CommandGroup]:
    """The groups with a command that this text finds, without empty ones."""
    text = " ".join(query[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode().split())
    groups = [
        CommandGroup(_("Pages"), tuple(_pages(text, user))),
        CommandGroup(_("Saved searches"), tuple(_saved(text, user.pk))),
        CommandGroup(_("Locations"), tuple(_location_commands(text, access_of(user)))),
    ]
    if len(text) >= MIN_QUERY:
        groups += [
            CommandGroup(_("Runs"), tuple(_runs(text))),
            CommandGroup(_("Jobs"), tuple(_jobs(text))),
            CommandGroup(_("Checkpoints"), tuple(_checkpoints(text))),
        ]
    if text:
        address = reverse("search", query={"q": text})
        found = PaletteCommand(_("Search all checkpoints for “%(text)s”") % {"text": text}, address)
        groups.append(CommandGroup(_("Search"), (found,)))
    return [group for group in groups if group.commands]


def _pages(text: str, user: User | AnonymousUser) -> Iterator[PaletteCommand]:
    detail = _("Theme, times, density, language, notifications")
    pages = [
        PaletteCommand(_("Home"), reverse("home")),
        PaletteCommand(_("Locations"), reverse("locations")),
        PaletteCommand(_("Jobs"), reverse("jobs")),
        PaletteCommand(_("Inbox"), reverse("inbox")),
        PaletteCommand(_("Search"), reverse("search")),
        PaletteCommand(_("Collections"), reverse("collections")),
        PaletteCommand(_("Settings"), reverse("settings"), detail),
    ]
    if may_everywhere(user, Right.VIEW):
        pages += [
            PaletteCommand(_("Stored data"), reverse("stored-data")),
            *([PaletteCommand(_("Hosts"), reverse("hosts"))] if Host.objects.count() > 1 else []),
        ]
    if may(user, Right.SHARE):
        pages.append(PaletteCommand(_("Share links"), reverse("shares")))
    if may_everywhere(user, Right.AUDIT):
        pages += [
            *([PaletteCommand(_("Audit trail"), reverse("audit"))] if settings.AUDIT else []),
            PaletteCommand(_("Add location"), reverse("locations") + "#add"),
            PaletteCommand(_("Daily limits"), reverse("jobs") + "?show=limits#day-limits"),
        ]
    yield from (page for page in pages if has_words(f"{page.label} {page.detail}", text))


def has_words(label: str, text: str) -> bool:
    """Whether a label has all words of a text, in any order and case."""
    return all(word in label.casefold() for word in text.casefold().split())


def _saved(text: str, user: int | None) -> Iterator[PaletteCommand]:
    for saved in SavedSearch.objects.filter(user=user, name__icontains=text)[:MAX_COMMANDS]:
        yield PaletteCommand(saved.name, saved.get_absolute_url())


def _location_commands(text: str, access: Access) -> Iterator[PaletteCommand]:
    """The locations with these words and what can be done with them, those with the newest runs first."""
    locations, shown = Location.objects.all(), 0
    labels = " ".join(label % {"location": ""} for label in _labels(access.highest).values()).casefold()
    for word in text.split():
        # SQLite compares only ASCII letters without case.
        if word.isascii() and word.casefold() not in labels:
            locations = locations.filter(path__icontains=word)
    most = MAX_SEARCHED_LOCATIONS if text else MAX_COMMANDS
    for location in by_newest_run(locations)[:most]:
        commands = _commands_of(location, access.level_at(location.pk))[: None if text else 2]
        found = [one for one in commands if has_words(f"{one.label} {location.path}", text)]
        yield from found
        shown += bool(found)
        if shown == MAX_COMMANDS:
            return


def _labels(level: int) -> dict[str, str]:
    """What somebody with this level starts from a location, by the name of its page."""
    labels = {
        "new-run": (Right.RUN, _("New run in %(location)s")),
        "project": (Right.PROJECTS, _("Project of %(location)s")),
        "prune": (Right.PRUNE, _("Prune checkpoints of %(location)s")),
    }
    return {page: label for page, (right, label) in labels.items() if level >= right.level}


def _commands_of(location: Location, level: int) -> list[PaletteCommand]:
    """The location's page, and what is started from there."""
    name, labels = {"location": location.name}, _labels(level)
    return [
        PaletteCommand(location.name, location.get_absolute_url(), location.path),
        *(PaletteCommand(label % name, reverse(page, args=[location.uid])) for page, label in labels.items()),
    ]


def _runs(text: str) -> Iterator[PaletteCommand]:
    runs = Run.objects.top_level().filter(Q(name__icontains=text) | Q(key__startswith=text))
    for run in runs.select_related("location")[:MAX_COMMANDS]:
        at = moment_text(run.last_at, "minute") if run.last_at else ""
        yield PaletteCommand(str(run), run.get_absolute_url(), f"{run.location.name} {at}".strip())


def _jobs(text: str) -> Iterator[PaletteCommand]:
    jobs = Job.objects.filter(branch__icontains=text) | Job.objects.begins_with(text)
    for job in jobs.order_by("-created_at")[:MAX_COMMANDS]:
        yield PaletteCommand(str(job), job.get_absolute_url(), str(job.get_status_display()))


def _checkpoints(text: str) -> Iterator[PaletteCommand]:
    # A range of the index by location and id.
    locations = Location.objects.order_by().values("pk")
    rows = Checkpoint.objects.filter(location__in=locations, checkpoint_id__gte=text)
    rows = rows.filter(checkpoint_id__lt=f"{text}\U0010ffff").order_by("checkpoint_id")
    for row in rows.select_related("run")[:MAX_COMMANDS]:
        yield PaletteCommand(row.checkpoint_id, row.get_absolute_url(), f"{row.run} {row.branch}")
