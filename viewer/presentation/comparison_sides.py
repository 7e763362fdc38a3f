"""The sides of a comparison: checkpoints, and what is compared of them."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, TypeVar

from django.db.models import Max, Q
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.contents import Part, part_id
from viewer.engines.plan import MISSING
from viewer.engines.protocol import Contents
from viewer.formats import count_text, duration, moment_text, money
from viewer.host_requests import ImportRun, NotReadable, ask
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Job, Run, uuid_of
from viewer.presentation.run.branches import branch_colours, title_of, with_ancestors
from viewer.records.annotations import named
from viewer.records.bodies import body_of, stored_body
from viewer.records.prices import current_prices
from viewer.stores.protocol import ModelUsage, PackedCall, usage_by_model

# The line of ancestors of a checkpoint, and the nearest that several checkpoints share.


Line = list[Checkpoint]


def line_of(checkpoint: Checkpoint) -> Line:
    """The checkpoint and its ancestors, oldest first, without their stored copies."""
    found = Checkpoint.objects.filter(pk__in=with_ancestors("id = %s", checkpoint.pk))
    return list(found.only("pk", "branch", "created_at", "row", "parent_id").order_by("row"))


def nearest_ancestors(checkpoint: Checkpoint, count: int) -> Line:
    """The checkpoint and its nearest ancestors, newest first, without their copies."""
    table = Checkpoint._meta.db_table
    # The depth ends the search where parents go round in a circle.
    statement = f"""
        WITH RECURSIVE line(id, parent_id, depth) AS (
            SELECT id, parent_id, 1 FROM {table} WHERE id = %s
            UNION ALL SELECT above.id, above.parent_id, line.depth + 1
            FROM {table} above JOIN line ON above.id = line.parent_id WHERE line.depth < %s
        ) SELECT id FROM line
    """  # noqa: S608
    found = Checkpoint.objects.filter(pk__in=RawSQL(statement, [checkpoint.pk, count]))  # noqa: S611
    rows = {row.pk: row for row in found.only("pk", "parent_id", "size")}
    line: Line = []
    at: int | None = checkpoint.pk
    while at in rows:
        row = rows.pop(at)
        line.append(row)
        at = row.parent_id
    return line


def common_ancestor(lines: Sequence[Line]) -> int | None:
    """The key of the newest checkpoint in all lines; None if they share none."""
    shared = set.intersection(*({one.pk for one in line} for line in lines)) if lines else set()
    return next((one.pk for one in reversed(lines[0]) if one.pk in shared), None) if shared else None


def since(line: Line, ancestor: int | None) -> Line:
    """The part of a line from this ancestor on; the whole line without one."""
    at = next((at for at, one in enumerate(line) if one.pk == ancestor), 0)
    return line[at:]


def duration_of(line: Line, sessions: Sequence[tuple[float, float]] = ()) -> timedelta:
    """The time between the checkpoints of a line, without the time until a fork or resume was started.

    ``sessions`` are the periods in which the run worked, in seconds since the epoch, if they are recorded.
    """
    idle = [(before[1], after[0]) for before, after in pairwise(sorted(sessions)) if after[0] > before[1]]
    total = timedelta()
    for before, after in pairwise(line):
        if before.branch == after.branch and before.created_at and after.created_at:
            start, end = before.created_at.timestamp(), after.created_at.timestamp()
            # The time of a checkpoint is that of its id, in whole seconds.
            paused = sum(max(0.0, min(end, until) - max(start, since)) for since, until in idle)
            total += timedelta(seconds=max(end - start - paused, 0.0))
    return total


# What an address of a comparison names: a checkpoint, or the newest one of a branch or run.


_UUID = 36


@dataclass(frozen=True, slots=True)
class Reference:
    """``RUN/CHECKPOINT``, ``RUN@BRANCH`` or ``RUN``. The run is named by its public id."""

    run: uuid.UUID
    checkpoint: str = ""
    branch: str = ""

    def __str__(self) -> str:
        if self.checkpoint:
            return f"{self.run}/{self.checkpoint}"
        return f"{self.run}@{self.branch}" if self.branch else str(self.run)


def reference_in(text: str) -> Reference | None:
    """The reference of this text; None if it is none."""
    run = uuid_of(text[:_UUID])
    if run is None:
        return None
    mark, name = text[_UUID : _UUID + 1], text[_UUID + 1 :]
    if not mark:
        return Reference(run)
    if not name or mark not in "/@":
        return None
    return Reference(run, checkpoint=name) if mark == "/" else Reference(run, branch=name)


def reference_to(checkpoint: Checkpoint) -> Reference:
    """The reference to one checkpoint."""
    return Reference(checkpoint.run.uid, checkpoint=checkpoint.checkpoint_id)


def checkpoint_of(reference: Reference) -> Checkpoint | None:
    """The checkpoint that it names, imported; None if there is none."""
    run = Run.objects.select_related("location__project", "parent").filter(uid=reference.run).first()
    if run is None:
        return None
    ask(ImportRun(run.pk))
    rows = Checkpoint.objects.filter(run=run).select_related(
        "run__location__project", "location", "stored_copy"
    )
    if reference.checkpoint:
        return rows.filter(checkpoint_id=reference.checkpoint).order_by("-row").first()
    return (rows.filter(branch=reference.branch) if reference.branch else rows).order_by("-row").first()


# The sides of a comparison: checkpoints with what is compared of them.


# How many checkpoints are compared at once, and how many ancestors of each are read.
MAX_SIDES, MAX_STEPS = 24, 40
ValueKey = tuple[str, str, str]


@dataclass(slots=True)
class Side:
    """One checkpoint. ``parts`` by section, key and trait; ``problem`` if it cannot be read.

    ``contents`` is None if it cannot be read.

    ``usage`` is that of the model calls so far.
    """

    reference: Reference
    checkpoint: Checkpoint
    colour: int
    line: Line
    parts: dict[ValueKey, Part] = field(default_factory=dict)
    usage: list[ModelUsage] = field(default_factory=list)
    # The periods in which the run worked, in seconds since the epoch.
    sessions: list[tuple[float, float]] = field(default_factory=list)
    problem: UserMessage | None = None
    contents: Contents | None = None

    def part_named(self, name: str) -> Part | None:
        """The part of the row that has this key in an address."""
        return next((part for key, part in self.parts.items() if part_id(*key) == name), None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides, the baseline first, and their newest common ancestor. ``unknown`` are texts that name none."""

    sides: list[Side]
    unknown: list[str]
    ancestor: Checkpoint | None = None

    @property
    def has_several_runs(self) -> bool:
        """Whether a branch's name alone would not say which side it is."""
        return len({side.checkpoint.run_id for side in self.sides}) > 1


def compared(texts: Sequence[str]) -> Comparison:
    """The sides that these references name, each once."""
    found: list[tuple[Reference, Checkpoint]] = []
    unknown: list[str] = []
    for text in dict.fromkeys(texts[:MAX_SIDES]):
        reference = reference_in(text)
        checkpoint = checkpoint_of(reference) if reference else None
        if reference is None or checkpoint is None:
            unknown.append(text)
        else:
            found.append((reference, checkpoint))
    return compared_checkpoints(found, unknown)


def compared_checkpoints(
    found: Sequence[tuple[Reference, Checkpoint]], unknown: Sequence[str] = ()
) -> Comparison:
    """The sides of these checkpoints, the baseline first."""
    sides = [
        Side(reference, row, branch_colours(row.run).get(row.branch, 0), line_of(row))
        for reference, row in found
    ]
    ancestor = common_ancestor([side.line for side in sides])
    for side in sides:
        _read(side, ancestor)
    rows = Checkpoint.objects.select_related("run", "parent")
    shared = rows.filter(pk=ancestor).first() if ancestor is not None else None
    return Comparison(sides, list(unknown), shared)


def _read(side: Side, ancestor: int | None) -> None:
    """Fill in the side's parts, or why it has none."""
    engine = engine_of(side.checkpoint.location)
    try:
        body = body_of(side.checkpoint)
    except NotReadable as error:
        side.problem = error.message
        return
    if not body:
        side.problem = UserMessage("store.not_shown")
        return
    side.contents = contents = engine.contents_of(body)
    copy = getattr(side.checkpoint, "stored_copy", None)
    calls = [PackedCall(*call).call for call in copy.calls] if copy else engine.model_calls(contents)
    side.usage = usage_by_model(calls)
    side.sessions = [(start, end) for _position, start, end in copy.sessions] if copy else []
    try:
        steps = _steps(side, ancestor) if engine.compares_steps else []
    except NotReadable as error:
        side.problem = error.message
        return
    for part in engine.comparable(contents, steps):
        side.parts[_free_key(side.parts, part)] = part


def _free_key(parts: dict[ValueKey, Part], part: Part) -> ValueKey:
    """The part's key, with a number if it is not the first with it."""
    key, number = (str(part.section), part.key, part.trait), 1
    while key in parts:
        number += 1
        key = (key[0], f"{part.key} ({number})", key[2])
    return key


def _steps(side: Side, ancestor: int | None) -> list[Any]:
    """The contents of the ancestors since the common one, which belongs to the branch that continues it."""
    line = since(side.line, ancestor)[:-1]
    if len(line) > 1 and line[0].pk == ancestor and line[0].branch != line[1].branch:
        line = line[1:]
    rows = Checkpoint.objects.select_related("location__project", "run", "stored_copy")
    found = rows.in_bulk([one.pk for one in line[-MAX_STEPS:]])
    engine = engine_of(side.checkpoint.location)
    return [engine.contents_of(stored_body(found[one.pk])) for one in line[-MAX_STEPS:] if one.pk in found]


# The scores of checkpoints, by the function that gave them.


Score = float | bool | str


def scores_of(checkpoints: Sequence[Checkpoint]) -> dict[str, list[Job | None]]:
    """For each function, the newest job that scored each checkpoint; None where it was not called."""
    keys = [checkpoint.pk for checkpoint in checkpoints]
    jobs = Job.objects.scores_of(keys).order_by("created_at")
    found: dict[str, list[Job | None]] = {}
    for job in jobs.only("checkpoint_id", "request", "result", "status"):
        row = found.setdefault(str(job.request.get("function") or ""), [None] * len(keys))
        for at, key in enumerate(keys):
            if key == job.checkpoint_id:
                row[at] = job
    return found


def score_text(job: Job | None) -> str:
    """The score, or the status of a job that has none; empty without a job."""
    if job is None:
        return ""
    score = score_of(job)
    if score is None:
        return str(job.get_status_display())
    if isinstance(score, bool):
        return _("yes") if score else _("no")
    return str(score)


def score_of(job: Job | None) -> Score | None:
    """The score that a succeeded job gave; None of any other."""
    return score_in(job) if job is not None and job.status == Job.Status.SUCCEEDED else None


def score_in(job: Job) -> Score:
    """The score of a succeeded job."""
    try:
        score: Score = json.loads(job.result)
    except ValueError:
        return job.result
    is_too_large = isinstance(score, int | float) and not abs(score) <= sys.float_info.max
    return job.result if is_too_large else score


def sides_by_score(sides: Sequence[Side], sort: str) -> list[Side]:
    """The baseline, then the other sides by the scores of the function ``sort``; ``-``: highest first.

    As they are if no function of this name scored one of them.
    """
    jobs = scores_of([side.checkpoint for side in sides]).get(sort.removeprefix("-"))
    if jobs is None:
        return list(sides)
    order = by_score([score_of(job) for job in jobs[1:]], highest_first=sort.startswith("-"))
    return [sides[0], *(sides[at + 1] for at in order)]


def best_of(scores: Sequence[Score | None]) -> list[int]:
    """The positions of the highest number, or of true.

    Empty if a score is a text, if fewer than two are known, or if all are equal.
    """
    known = [score for score in scores if score is not None]
    if len(set(known)) < 2 or any(isinstance(score, str) for score in known):
        return []
    best = max(float(score) for score in known)
    return [at for at, score in enumerate(scores) if score is not None and float(score) == best]


def by_score(scores: Sequence[Score | None], *, highest_first: bool) -> list[int]:
    """The positions in the order of their scores: numbers, then texts, then those without a score."""
    numbers = [at for at, score in enumerate(scores) if isinstance(score, float | int)]
    texts = [at for at, score in enumerate(scores) if isinstance(score, str)]
    numbers.sort(key=lambda at: float(scores[at] or 0), reverse=highest_first)
    texts.sort(key=lambda at: str(scores[at]).casefold(), reverse=highest_first)
    return [*numbers, *texts, *(at for at, score in enumerate(scores) if score is None)]


# What the rows of checkpoints say about them: run, branch, state, tokens and time.


# What the keys of scores begin with, before the function.
SCORE = "score "
R = TypeVar("R")
MakeRow = Callable[[ValueKey, str, Sequence[Any]], R]


def facts_of(sides: Sequence[Side], row: MakeRow[R]) -> list[R]:
    """A row for each fact that any side has."""
    facts: list[tuple[str, str, list[str]]] = [
        ("run", _("Run"), [f"{side.checkpoint.run}" for side in sides]),
        ("checkpoint", _("Checkpoint"), [title_of(side.checkpoint) for side in sides]),
        ("duration", _("Duration"), [_duration(side) for side in sides]),
        ("models", _("Models"), [", ".join(sorted(filter(None, _models(side)))) for side in sides]),
        ("tokens", _("Tokens so far"), [_number(_tokens(side)) for side in sides]),
        ("cost", _("Cost so far"), [_cost(side) for side in sides]),
        ("created", _("Created"), [_moment(side) for side in sides]),
        ("engine", _("Engine version"), [side.checkpoint.engine_version for side in sides]),
    ]
    for function, scores in scores_of([side.checkpoint for side in sides]).items():
        best = best_of([score_of(job) for job in scores])
        texts = [score_text(job) for job in scores]
        shown = [
            _("%(score)s, best") % {"score": text} if at in best else text for at, text in enumerate(texts)
        ]
        facts.insert(0, (f"{SCORE}{function}", _("Score") + f" · {function}", shown))
    return [
        row(("", name, ""), label, [value or MISSING for value in values])
        for name, label, values in facts
        if any(values)
    ]


def _models(side: Side) -> list[str]:
    return [used.model for used in side.usage]


def _tokens(side: Side) -> int:
    return side.checkpoint.tokens or sum(used.tokens for used in side.usage)


def _duration(side: Side) -> str:
    """The time between its checkpoints; empty for none."""
    return duration(duration_of(side.line, side.sessions).total_seconds() or None)


def _cost(side: Side) -> str:
    """The price of the model calls so far, in US dollars; empty if no price is known."""
    cost = current_prices().cost(side.usage, side.checkpoint.created_at)
    if cost.amount is None:
        return ""
    shown = money(cost.amount)
    return _("at least %(cost)s") % {"cost": shown} if cost.unpriced_calls else shown


def _moment(side: Side) -> str:
    at = side.checkpoint.created_at
    return moment_text(at, "full") if at else ""


def _number(value: int) -> str:
    return count_text(value) if value else ""


# What a checkpoint may be compared with: listed if an address names only one side.


# How many of each kind are listed.
MAX_OFFERED = 30


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of them, with a heading. ``key`` is the row of a checkpoint, None of a run."""

    reference: Reference
    heading: str
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates of one kind."""

    label: str
    found: tuple[Candidate, ...]


def candidates_for(side: Side) -> list[Candidates]:
    """Its ancestors, the branches of its run, and the newest runs with its name."""
    groups = [
        Candidates(_("Ancestors"), tuple(map(_of_checkpoint, _ancestors(side)))),
        Candidates(_("Branches of this run"), tuple(map(_of_checkpoint, _heads(side)))),
        Candidates(_("Other runs"), tuple(map(_of_run, _other_runs(side)))),
    ]
    return [group for group in groups if group.found]


def candidates_like(text: str) -> list[Candidates]:
    """The runs and checkpoints of all locations that this text names, or whose ids begin with it."""
    words = text.split()
    runs = Run.objects.top_level().select_related("location")
    rows = Checkpoint.objects.select_related("run", "parent").order_by("-created_at")
    for word in words:
        is_named = Q(name__icontains=word) | Q(key__startswith=word) | Q(location__path__icontains=word)
        runs = runs.filter(is_named | Q(pk__in=named(Run.objects.all(), word).values("pk")))
        of_run = Q(run__name__icontains=word) | Q(run__location__path__icontains=word)
        rows = rows.filter(Q(checkpoint_id__startswith=word) | Q(branch__icontains=word) | of_run)
    groups = [
        Candidates(_("Runs"), tuple(_of_run_anywhere(run) for run in runs[:MAX_OFFERED])),
        Candidates(_("Checkpoints"), tuple(_of_checkpoint_anywhere(row) for row in rows[:MAX_OFFERED])),
    ]
    return [group for group in groups if group.found and words]


def _of_run_anywhere(run: Run) -> Candidate:
    found = _of_run(run)
    return replace(found, heading=f"{found.heading}, {run.location.parent_name}/{run.location.name}")


def _of_checkpoint_anywhere(row: Checkpoint) -> Candidate:
    found = _of_checkpoint(row)
    return replace(found, heading=f"{row.run}, {found.heading}")


def _ancestors(side: Side) -> list[Checkpoint]:
    """The parent and the checkpoint at which the branch began."""
    line = side.line[:-1]
    origin = [one.pk for one in line if one.branch != side.checkpoint.branch][-1:]
    keys = {*(one.pk for one in line[-1:]), *origin}
    return list(Checkpoint.objects.filter(pk__in=keys).select_related("run", "parent"))


def _heads(side: Side) -> list[Checkpoint]:
    """The newest checkpoint of each other branch, the last written first."""
    rows = side.checkpoint.run.checkpoints.exclude(pk=side.checkpoint.pk).order_by()
    newest = rows.values_list("branch").annotate(newest=Max("row")).order_by("-newest")[:MAX_OFFERED]
    found = side.checkpoint.run.checkpoints.filter(row__in=[row for _branch, row in newest])
    return list(found.select_related("run", "parent").order_by("-row"))


def _other_runs(side: Side) -> list[Run]:
    run = side.checkpoint.run
    alike = Run.objects.top_level().filter(location=run.location, name=run.name).exclude(pk=run.pk)
    return list(alike[:MAX_OFFERED])


def _of_checkpoint(checkpoint: Checkpoint) -> Candidate:
    heading = f"{checkpoint.branch}, {title_of(checkpoint)}"
    return Candidate(reference_to(checkpoint), heading, checkpoint.pk)


def _of_run(run: Run) -> Candidate:
    started = f", {moment_text(run.first_at, 'full')}" if run.first_at else ""
    return Candidate(Reference(run.uid), f"{run}{started}")
