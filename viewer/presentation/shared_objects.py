"""What a share link shows: exactly one run, checkpoint, comparison, search or job."""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import graphviz
from django.conf import settings
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.utils.translation import gettext as _

from viewer.host_requests import ImportRun, ask
from viewer.models import Checkpoint, Job, Location, Run, ShareLink, Sweep, uuid_of
from viewer.presentation.comparison_sides import (
    MAX_SIDES,
    Reference,
    checkpoint_of,
    reference_in,
    reference_to,
)
from viewer.presentation.sweeps import members_of
from viewer.records.lineage.drawing import draw_picture
from viewer.records.lineage.graphs import Chain, Link, collapse, literal_label
from viewer.records.search_filters import Filters, filters_from
from viewer.stores.addresses import saver_in

# Replaces the paths of this machine in what is shown through a share link.


REPLACEMENT = "[path]"


def paths_of(locations: Iterable[Location]) -> list[str]:
    """Return the paths that nobody without a login may see: of locations, projects, and Forkline's own."""
    found = {str(settings.DATA_DIR), str(Path.home()), *map(str, settings.CHECKPOINT_ROOTS)}
    for location in locations:
        if location.is_local:
            found |= {location.path, *_above(location.path)}
        if saver_folder := saver_in(location.path)[0]:
            found |= {location.path, saver_folder}
        if location.project:
            found |= {location.project.folder, location.project.interpreter}
    return sorted((path for path in found if len(path) > 1), key=len, reverse=True)


def _above(path: str) -> list[str]:
    """Return the folder of a location, unless it is as common as ``/tmp``."""
    folder = Path(path).parent
    return [str(folder)] if len(folder.parts) > 2 else []


def without_paths(text: str, paths: Iterable[str]) -> str:
    """Return the HTML with each path replaced, together with what is below it."""
    names = {written for path in paths for written in (path, html.escape(path))}
    if not names:
        return text
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{longest_first})(?![\w.-])(?:/[\w.@+-]+)*", REPLACEMENT, text)


# The picture of a run's lineage that a chat shows where a link is pasted.


# The newest checkpoints that are drawn, and the newest of their nodes. More could not be read.
MAX_CHECKPOINTS, MAX_NODES = 5_000, 40
# Characters of a branch's name.
MAX_NAME = 28
DRAWING_SECONDS = 3.0
COLOURS = ("#3959f9", "#077b5b", "#b64a09", "#9438b0", "#0e7593", "#8a6400")


def lineage_png(run: Run) -> bytes:
    """Return the picture as PNG, at most 1200 by 630 pixels. It names branches only.

    Raises NoLayout without ``dot``, or if it takes too long.
    """
    return _drawn(run.pk, run.checkpoint_count, run.branch_count, run.last_at)


@lru_cache(maxsize=16)
def _drawn(run: int, _checkpoints: int, _branches: int, _last_at: datetime | None) -> bytes:
    """Return the picture of a run, drawn once for each state of it."""
    newest = Checkpoint.objects.filter(run=run).order_by("-row")
    rows = list(newest.values_list("pk", "parent_id", "branch", "parent_link")[:MAX_CHECKPOINTS])
    chains, _chain_of = collapse([Link(*row) for row in reversed(rows)])
    return draw_picture(picture_source(chains), DRAWING_SECONDS)


def picture_source(chains: list[Chain]) -> str:
    """Return the newest chains in Graphviz' language."""
    graph = graphviz.Digraph(
        # 12 by 6.3 inches with 100 dots an inch.
        graph_attr={"rankdir": "LR", "size": "12,6.3!", "dpi": "100", "bgcolor": "white", "pad": "0.4"},
        node_attr={"shape": "box", "style": "rounded,filled", "fillcolor": "white", "fontname": "Helvetica"},
        edge_attr={"arrowhead": "none", "color": "#87878e", "penwidth": "2"},
    )
    first = max(0, len(chains) - MAX_NODES)
    branches = list(dict.fromkeys(chain.branch for chain in chains))
    for number, chain in enumerate(chains[first:], first):
        colour = COLOURS[branches.index(chain.branch) % len(COLOURS)]
        text = f"{_short(chain.branch)}  ·  {chain.count}"
        graph.node(f"n{number}", literal_label(text), color=colour, fontcolor=colour, penwidth="2")
        if chain.parent is not None and chain.parent >= first:
            graph.edge(f"n{chain.parent}", f"n{number}")
    return str(graph.source)


def _short(branch: str) -> str:
    name = "".join(one for one in branch if one.isprintable())
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


# What a share link leads to: exactly one run, checkpoint, comparison, search or job.


Kind = ShareLink.Kind
# Characters of a target.
MAX_TARGET = 8_000


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of an object and what names it: the ids of a run or job, or the query of an address."""

    kind: ShareLink.Kind
    target: str

    @property
    def path(self) -> str:
        """The subject as one part of a URL."""
        return urlsafe_base64_encode(f"{self.kind}:{self.target}".encode())


@dataclass(frozen=True, slots=True)
class Shared:
    """An existing object. Only the fields of its kind are set, ``run`` for checkpoints as well."""

    subject: Subject
    title: str
    # The keys of its locations; none for a search in all or in one UUID.
    locations: tuple[int, ...] = ()
    run: Run | None = None
    checkpoint: Checkpoint | None = None
    sides: Sequence[tuple[Reference, Checkpoint]] = ()
    filters: Filters | None = None
    job: Job | None = None

    @property
    def has_picture(self) -> bool:
        """Whether a chat can show a picture: only a run covers a lineage."""
        return self.run is not None and self.checkpoint is None


def subject_in(kind: str, target: str) -> Subject | None:
    """Return the subject that these values of an address name; None if they name none."""
    is_text = target.isprintable() and 0 < len(target) <= MAX_TARGET
    return Subject(Kind(kind), target) if kind in Kind.values and is_text else None


def subject_at(path: str) -> Subject | None:
    """Return the subject of this part of a URL; None if it is none."""
    try:
        kind, _colon, target = urlsafe_base64_decode(path).decode().partition(":")
    except ValueError:
        return None
    return subject_in(kind, target)


def find_shared(subject: Subject) -> Shared | None:
    """Return what the subject names; None if it does not exist."""
    return RESOLVERS[subject.kind](subject)


def _run(subject: Subject) -> Shared | None:
    run = _imported_run(subject.target)
    return Shared(subject, str(run), (run.location_id,), run=run) if run else None


def _imported_run(text: str) -> Run | None:
    if (uid := uuid_of(text)) is None:
        return None
    runs = Run.objects.select_related("location__project", "parent").filter(uid=uid)
    run = runs.first()
    return runs.first() if run and ask(ImportRun(run.pk)).is_news else run


def _checkpoint(subject: Subject) -> Shared | None:
    reference = reference_in(subject.target)
    checkpoint = checkpoint_of(reference) if reference and reference.checkpoint else None
    if checkpoint is None:
        return None
    title = f"{checkpoint.run}, {checkpoint.branch}"
    return Shared(subject, title, (checkpoint.location_id,), run=checkpoint.run, checkpoint=checkpoint)


def _comparison(subject: Subject) -> Shared | None:
    """Return a comparison of checkpoints: branches, runs and sweeps become those that they are now."""
    query = parse_qs(subject.target, max_num_fields=4 * MAX_SIDES)
    texts = [*query.get("a", [])[:1], *_members(query.get("sweep", [""])[0]), *query.get("b", [])]
    references = [reference_in(text) for text in dict.fromkeys(texts[:MAX_SIDES])]
    found = [checkpoint_of(one) if one else None for one in references]
    rows = {row.pk: row for row in found if row}
    if None in found or len(rows) < 2:
        return None
    sides = [(reference_to(row), row) for row in rows.values()]
    first, *others = [str(reference) for reference, _row in sides]
    target = urlencode([("a", first), *(("b", other) for other in others)])
    title = _("%(run)s: %(branches)s") % {
        "run": sides[0][1].run,
        "branches": ", ".join(dict.fromkeys(row.branch for row in rows.values())),
    }
    locations = tuple(sorted({row.location_id for row in rows.values()}))
    return Shared(Subject(Kind.COMPARISON, target), title, locations, sides=sides)


def _members(text: str) -> list[str]:
    uid = uuid_of(text)
    sweep = Sweep.objects.select_related("checkpoint__run").filter(pk=uid).first() if uid else None
    return list(members_of(sweep)) if sweep else []


def _search(subject: Subject) -> Shared | None:
    query = parse_qs(subject.target, max_num_fields=100)
    filters = filters_from({name: values[0] for name, values in query.items()})
    if not filters:
        return None
    subject, title = Subject(Kind.SEARCH, filters.query), filters.q or _("Filtered checkpoints")
    if not filters.location or uuid_of(filters.location):
        return Shared(subject, title, filters=filters)
    # A part of a path may be that of other locations later, which the maker of a link did not choose.
    found = Location.objects.matching(filters.location).values_list("pk", flat=True)
    return Shared(subject, title, tuple(found), filters=filters)


def _job(subject: Subject) -> Shared | None:
    uid, related = uuid_of(subject.target), ("run", "location", "checkpoint", "project")
    job = Job.objects.select_related(*related).filter(pk=uid).first() if uid else None
    return Shared(subject, str(job), (job.location_id,), job=job) if job else None


RESOLVERS: dict[ShareLink.Kind, Callable[[Subject], Shared | None]] = {
    Kind.RUN: _run,
    Kind.CHECKPOINT: _checkpoint,
    Kind.COMPARISON: _comparison,
    Kind.SEARCH: _search,
    Kind.JOB: _job,
}
