"""Starts many runs of a team at the same time, and lets as many threads claim them.

Passes if a quota is never exceeded and never refuses what it allows, if a group starts whole or not at all,
if a form that was sent twice starts once, and if what was refused says which quota of which team.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import made_location, temporary_data_folder

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from viewer.models import Location, Team

ROUNDS, STARTS = 10, 50
KINDS = ("accepted", "refused", "claimed", "waiting")
Result = TypeVar("Result")


def at_once(act: Callable[[int], Result], count: int) -> list[Result]:
    """Call ``act`` with each number at the same time, in one thread for each."""
    from django.db import connection

    def acted(number: int) -> Result:
        try:
            return act(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(acted, range(count)))


def race(chance: random.Random, counts: Counter[str], location: "Location", starts: int) -> list[str]:
    """Start runs and groups of a new team at once, then claim as many. Return what was wrong."""
    from django.contrib.auth.models import User

    from viewer.models import Job, Level, Role, Team

    name = f"team {uuid4().hex[:8]}"
    team = Team.objects.create(name=name, quotas={"runs": chance.randrange(1, 9)})
    people = [User.objects.create_user(f"{name} {number}") for number in range(3)]
    team.members.set(people)
    Role.objects.create(team=team, level=Level.OPERATOR)
    wrong = _race_starts(chance, counts, location, starts, team, people)
    wrong += _race_claims(counts, location, starts, team, people)
    Job.objects.filter(requested_by__in=people).update(status=Job.Status.CANCELLED)
    return wrong


def _race_starts(
    chance: random.Random,
    counts: Counter[str],
    location: "Location",
    starts: int,
    team: "Team",
    people: list["User"],
) -> list[str]:
    from viewer.host_requests import JobRefused
    from viewer.launching.refusals import LaunchRefused
    from viewer.launching.start import start_run
    from viewer.launching.sweep import Planned, start_group
    from viewer.models import Checkpoint, Job, Run

    run = Run.objects.create(location=location, key=team.name, entity="crew")
    row = Checkpoint.objects.create(location=location, run=run, source_key=team.name, fingerprint="1")
    sizes = [chance.choice((1, 1, 2, 3)) for _ in range(starts // 2)]
    keys = [uuid4() for _ in sizes]

    def send(number: int) -> str:
        # Each form is sent twice.
        form = number % len(sizes)
        person, size, branch = people[form % len(people)], sizes[form], f"{team.name} {form}"
        planned = [Planned("", f"{branch} {one}", {}, [], row, location.project) for one in range(size)]
        try:
            if size == 1:
                start_run(location, location.project, {"branch": branch}, person, keys[form])
            else:
                start_group(branch, planned, keys[form], checkpoint=row, requested_by=person)
        except (JobRefused, LaunchRefused) as refused:
            return str(refused)
        return ""

    answers = at_once(send, 2 * len(sizes))
    refused = [(size, answer) for size, answer in zip(sizes, answers, strict=False) if answer]
    accepted, most = Job.objects.filter(requested_by__in=people).count(), team.quotas["runs"]
    counts["accepted"] += accepted
    counts["refused"] += sum(size for size, _ in refused)
    wrong = [f"{accepted} runs with a quota of {most}"] if accepted > most else []
    wrong += [
        f"refused {size} more than {accepted} of {most}" for size, _ in refused if accepted + size <= most
    ]
    wrong += [answer for _, answer in refused if f" of the team {team.name}: " not in answer]
    if accepted != sum(sizes) - sum(size for size, _ in refused):
        wrong.append(f"{accepted} runs are not the accepted forms, whole and once")
    return wrong


def _race_claims(
    counts: Counter[str], location: "Location", starts: int, team: "Team", people: list["User"]
) -> list[str]:
    from django.utils import timezone

    from viewer.host.jobs.starting import claim
    from viewer.models import Job

    now = timezone.now()
    jobs = [
        Job.objects.create(
            kind="run",
            location=location,
            project=location.project,
            host=location.host,
            requested_by=people[number % len(people)],
            start_at=now,
            became_due_at=now,
        )
        for number in range(starts)
    ]
    claimed = sum(at_once(lambda number: claim(jobs[number]), starts))
    counts["claimed"] += claimed
    counts["waiting"] += starts - claimed
    most, under_way = team.quotas["runs"], Job.objects.under_way().filter(requested_by__in=people).count()
    return [] if claimed == under_way == most else [f"claimed {claimed} runs with a quota of {most}"]


def attack(database: str) -> int:
    """Print what became of the starts with this database. Return 1 if a check failed."""
    counts, wrong = Counter[str](), list[str]()
    with temporary_data_folder() as folder:
        from viewer.host.permitted import permit
        from viewer.host.worker import claim_unregistered

        # Rows on a server belong to hosts, which open what was named to them.
        claim_unregistered()
        location = made_location(folder)
        permit(str(folder))
        for seed in range(ROUNDS):
            found = race(random.Random(seed), counts, location, STARTS)
            wrong += [f"{database}, seed {seed}: {reason}" for reason in found]
    print_heading("quotas", "rounds", *KINDS, "wrong")
    print_row(database, ROUNDS, *(counts[kind] for kind in KINDS), len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(attack("SQLite"))
