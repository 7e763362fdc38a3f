"""Stores and rows with a few dozen payloads each, and the URLs that show them.

Needs Django to be set up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from quality.fuzz.script_injection.checkpoints import TOGETHER, Texts, write_crew, write_flow
from quality.fuzz.script_injection.rows import make_jobs, make_replays, preflight_report

if TYPE_CHECKING:
    from viewer.models import Checkpoint, Location, Project

# The number of payloads in one run.
A_GROUP = 54


@dataclass
class Group:
    """The URLs to open for a group of payloads."""

    texts: Texts
    # A run page, whose tabs are clicked.
    run: str
    # The job pages that are open while events arrive.
    location: "Location"
    addresses: list[str] = field(default_factory=list)


def made_groups(folder: Path, payloads: Mapping[int, str]) -> list[Group]:
    """Write, import and store everything with these payloads."""
    from tests.views.forking import create_location

    project = create_location((folder / f"project {next(iter(payloads.values()))}").resolve()).project
    assert project
    numbers = list(payloads)
    some = [numbers[at : at + A_GROUP] for at in range(0, len(numbers), A_GROUP)]
    return [
        made_group(folder / f"{few[0]}", Texts({number: payloads[number] for number in few}), project)
        for few in some
    ]


def made_group(folder: Path, texts: Texts, project: "Project") -> Group:
    first = texts.numbers[0]
    group_folder = folder / texts.file_name("folder", first)
    group_folder.mkdir(parents=True)
    write_crew(group_folder / "crew.db", texts)
    write_flow(group_folder / texts.file_name("location", first), texts)
    crew = imported(group_folder / "crew.db", project)
    flow = imported(group_folder / texts.file_name("location", first), project)
    checkpoints = list(crew.checkpoints.order_by("row"))
    last = checkpoints[-1]
    jobs = make_jobs(last, texts)
    group = Group(texts, last.run.get_absolute_url(), crew)
    group.addresses = [
        *(
            checkpoints[group_folder].get_absolute_url()
            for group_folder in range(0, len(checkpoints), TOGETHER)
        ),
        *crew_addresses(last),
        *flow_addresses(flow),
        *(job.get_absolute_url() for job in jobs),
        *form_addresses(last, flow.checkpoints.get(entity="flow"), texts),
        *call_addresses(last, texts),
        *(f"/jobs/{jobs[0].pk}/questions/{number}/" for number in (1, 2, 3)),
        jobs[0].sweep.get_absolute_url() if jobs[0].sweep else "",
        f"/locations/{crew.uid}/",
        f"/locations/{flow.uid}/",
        f"/locations/{flow.uid}/project/",
    ]
    return group


def imported(path: Path, project: "Project") -> "Location":
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location

    location = open_location(path)
    location.project = project
    location.save()
    import_location(location)
    return location


def crew_addresses(last: "Checkpoint") -> Iterator[str]:
    """Return the URLs of the checkpoint with the most payloads."""
    run = last.run.get_absolute_url()
    at = {"at": last.checkpoint_id}
    for more in ("tab=tasks", "tab=tasks&as=source", "tab=events&event=100", "view=graph", "only=failed"):
        yield f"{run}?{urlencode(at)}&{more}"
    yield f"{run}?{urlencode({'branch': last.branch})}"
    yield f"{run}again/"


def call_addresses(last: "Checkpoint", texts: Texts) -> Iterator[str]:
    """Return the URLs of a recorded model call, its replay, and the forms that replay it and all calls."""
    name, job = make_replays(last, texts)
    calls = f"/checkpoints/{last.pk}/calls/"
    yield from (calls, f"{calls}{name}/", f"{calls}{name}/replay/", f"/checkpoints/{last.pk}/replay/")
    yield job.get_absolute_url()
    yield job.sweep.get_absolute_url() if job.sweep else ""


def flow_addresses(flow: "Location") -> Iterator[str]:
    """Return the URLs of a flow's and an agent's checkpoint."""
    for checkpoint in flow.checkpoints.all():
        address = checkpoint.get_absolute_url()
        yield from (f"{address}&{more}" for more in ("tab=state", "tab=tasks&as=source", "tab=tasks", ""))


def form_addresses(crew: "Checkpoint", flow: "Checkpoint", texts: Texts) -> Iterator[str]:
    """Return the URLs of the fork and resume forms with the findings of a preflight check."""
    from tests.views.forking import checked

    checked(crew, **preflight_report(texts))
    checked(flow, "flow:Desk", **preflight_report(texts))
    for checkpoint in (crew, flow):
        yield from (f"/checkpoints/{checkpoint.pk}/{form}/" for form in ("fork", "resume", "sweep"))
