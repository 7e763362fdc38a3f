"""Share links: who makes them, when they work, and the one object that each shows."""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import graphviz
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.utils.translation import gettext as _

from viewer.host_requests import ImportRun, ask
from viewer.models import Checkpoint, Job, Location, Run, ShareLink, Sweep, uuid_of
from viewer.models.accounts import MAX_TOKEN, hash_of, new_token
from viewer.models.roles import unrestricted
from viewer.presentation import comparison_sides
from viewer.presentation.sweeps import members_of
from viewer.records.audit import Action, Audited, record
from viewer.records.lineage.graphs import Chain, Link, collapse, draw_picture, literal_label
from viewer.records.permissions import can_share, sharing_as
from viewer.records.search_filters import Filters, filters_from
from viewer.stores import saver_in

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
    # In JSON, an escaped line break before a path ends with a letter. A full stop may end the sentence.
    start, end = r"(?:(?<![\w.-])|(?<=\\[bfnrt]))", r"(?![\w-]|\.\w)"
    return re.sub(rf"{start}(?:{longest_first}){end}(?:/[\w.@+-]+)*", REPLACEMENT, text)


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
# Characters of a target, and parameters of a query in it.
MAX_TARGET, MAX_PARAMETERS = 8_000, 100


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
    sides: Sequence[tuple[comparison_sides.Reference, Checkpoint]] = ()
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
    reference = comparison_sides.reference_in(subject.target)
    checkpoint = comparison_sides.checkpoint_of(reference) if reference and reference.checkpoint else None
    if checkpoint is None:
        return None
    title = f"{checkpoint.run}, {checkpoint.branch}"
    return Shared(subject, title, (checkpoint.location_id,), run=checkpoint.run, checkpoint=checkpoint)


def _comparison(subject: Subject) -> Shared | None:
    """Return a comparison of checkpoints: branches, runs and sweeps become those that they are now."""
    query = _query_in(subject.target)
    texts = [*query.get("a", [])[:1], *_members(query.get("sweep", [""])[0]), *query.get("b", [])]
    references = [
        comparison_sides.reference_in(text) for text in dict.fromkeys(texts[: comparison_sides.MAX_SIDES])
    ]
    found = [comparison_sides.checkpoint_of(one) if one else None for one in references]
    rows = {row.pk: row for row in found if row}
    if None in found or len(rows) < 2:
        return None
    sides = [(comparison_sides.reference_to(row), row) for row in rows.values()]
    first, *others = [str(reference) for reference, _row in sides]
    target = urlencode([("a", first), *(("b", other) for other in others)])
    title = _("%(run)s: %(branches)s") % {
        "run": sides[0][1].run,
        "branches": ", ".join(dict.fromkeys(row.branch for row in rows.values())),
    }
    locations = tuple(sorted({row.location_id for row in rows.values()}))
    return Shared(Subject(Kind.COMPARISON, target), title, locations, sides=sides)


def _query_in(target: str) -> dict[str, list[str]]:
    """Return the parameters of a query; none if it has too many."""
    try:
        return parse_qs(target, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return {}


def _members(text: str) -> list[str]:
    uid = uuid_of(text)
    sweep = Sweep.objects.select_related("checkpoint__run").filter(pk=uid).first() if uid else None
    return list(members_of(sweep)) if sweep else []


def _search(subject: Subject) -> Shared | None:
    query = _query_in(subject.target)
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


# Which requests to a share link are views of a person.


# Programs that fetch a link where it is pasted, and crawlers. A browser has none of these in its name.
PROGRAM = re.compile(
    r"bot\b|bot/|crawl|spider|preview|facebookexternalhit|facebot|whatsapp|slack|telegram|discord|skype|teams"
    r"|linkedin|embedly|iframely|mattermost|zulip|curl/|wget|python|go-http|okhttp|headless(?!chrome)|^$",
    re.IGNORECASE,
)


def is_program(request: HttpRequest) -> bool:
    """Whether a program sent the request, such as a chat that shows a preview of the link."""
    return bool(PROGRAM.search(request.headers.get("User-Agent", "")))


def is_view(request: HttpRequest) -> bool:
    """Whether a person opened the page: not a part of it, not in advance, and not only its headers."""
    is_ahead = "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", ""))
    is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    return request.method == "GET" and is_page and not is_ahead and "HX-Request" not in request.headers


# The object that the address of a page shows.


def subject_of(address: str, *, whole_run: bool = False) -> Subject | None:
    """Return what a page of this address, copied from a browser, is about; None if that cannot be shared.

    The page of a run with a selected checkpoint is about the checkpoint, unless ``whole_run``.
    """
    try:
        parts = urlsplit(address)
        found = resolve(parts.path)
        selected = parse_qs(parts.query, max_num_fields=MAX_PARAMETERS).get("at", [""])[0]
    except (ValueError, Resolver404):
        return None
    if found.url_name == "run":
        if selected and not whole_run:
            return subject_in(Kind.CHECKPOINT, f"{found.kwargs['uid']}/{selected}")
        return subject_in(Kind.RUN, str(found.kwargs["uid"]))
    if found.url_name == "job":
        return subject_in(Kind.JOB, str(found.kwargs["pk"]))
    kinds = {"compare": Kind.COMPARISON, "search": Kind.SEARCH}
    return subject_in(kinds[found.url_name], parts.query) if found.url_name in kinds else None


# Making share links, and finding the one that a token belongs to.


# The choices of how long a link works, in days. The first is the default.
EXPIRY_DAYS = (7, 1, 30, 90)


def make_link(
    shared: Shared, maker: User, *, days: int = EXPIRY_DAYS[0], unfurls: bool = False
) -> tuple[ShareLink, str]:
    """Store a link to an object. Return it with its token, which cannot be found out again."""
    token, now = new_token(), timezone.now()
    with transaction.atomic():
        link = ShareLink.objects.create(
            token_hash=hash_of(token),
            kind=shared.subject.kind,
            target=shared.subject.target,
            title=shared.title[:300],
            locations=list(shared.locations),
            made_by=maker,
            created_at=now,
            expires_at=now + timedelta(days=days),
            unfurls=unfurls,
        )
        record(Action.SHARED, Audited.SHARE, link.pk, link.kind)
    return link, token


def revoke_link(link: ShareLink) -> None:
    """Record that the link no longer works. Its open pages end at once."""
    with transaction.atomic():
        link.revoke()
        record(Action.REVOKED, Audited.SHARE, link.pk)


def link_for(token: str) -> tuple[ShareLink, Shared] | None:
    """Return the link with this token and its object; None if there is none that works.

    The lookup compares hashes, so its duration says nothing about other tokens.
    """
    if len(token) > MAX_TOKEN:
        return None
    link = _link_with(token)
    if link is None or not is_alive(link):
        return None
    shared = shared_by(link)
    return (link, shared) if shared else None


def _link_with(token: str) -> ShareLink | None:
    with unrestricted():
        return ShareLink.objects.select_related("made_by").filter(token_hash=hash_of(token)).first()


def is_alive(link: ShareLink) -> bool:
    """Whether a link works, apart from whether its object still exists.

    Its maker must still be allowed to share its locations, and none may have been removed: the same location
    added again is another one.
    """
    if not settings.SHARING or link.revoked_at or link.has_expired or not can_share(link.made_by):
        return False
    with sharing_as(link.made_by):
        return Location.objects.filter(pk__in=link.locations).count() == len(link.locations)


class LinkState(StrEnum):
    """Whether a link works, or why not."""

    WORKS = "works"
    REVOKED = "revoked"
    EXPIRED = "expired"
    # Its object is gone, or its maker may not share any more.
    DEAD = "dead"


def link_state(link: ShareLink, shared: Shared | None = None) -> LinkState:
    """The state of a link. ``shared`` is its object, if it was found already."""
    if link.revoked_at:
        return LinkState.REVOKED
    if link.has_expired:
        return LinkState.EXPIRED
    return LinkState.WORKS if is_alive(link) and (shared or shared_by(link)) else LinkState.DEAD


def shared_by(link: ShareLink) -> Shared | None:
    """Return the object of a link; None if it is gone."""
    subject = subject_in(link.kind, link.target)
    with sharing_as(link.made_by):
        shared = find_shared(subject) if subject else None
    # An object that has moved elsewhere was not what its maker saw.
    return shared if shared and set(shared.locations) <= set(link.locations) else None


# What an open page of a share link depends on, as values to compare.


# The columns of a run and of a job that differ whenever its page would.
RUN_COLUMNS = ("checkpoint_count", "branch_count", "lane_count", "last_at", "status", "head", "name")
JOB_COLUMNS = ("status", "limit_hit", "started_at", "ended_at")


def state_of(link: ShareLink) -> str | None:
    """Return a text that differs whenever the page of the link would; None if the link does not work."""
    if not is_alive(link):
        return None
    read = READERS.get(link.kind)
    with sharing_as(link.made_by):
        return read(link.target) if read else ""


def states_of(keys: Iterable[str]) -> Mapping[str, str | None]:
    """Return the states of these links by their keys. A link that is gone does not work."""
    wanted = list(keys)
    links = ShareLink.objects.select_related("made_by").filter(pk__in=wanted) if wanted else ()
    states = {str(link.pk): state_of(link) for link in links}
    return {key: states.get(key) for key in wanted}


def open_link(token: str) -> ShareLink | None:
    """Return the link with this token, if it works."""
    link = _link_with(token)
    return link if link and state_of(link) is not None else None


def _run_state(target: str) -> str | None:
    found = Run.objects.filter(uid=target).values_list(*RUN_COLUMNS).first()
    return None if found is None else "|".join(map(str, found))


def _job_state(target: str) -> str | None:
    jobs = Job.objects.filter(pk=target).annotate(last=Max("events__seq"))
    found = jobs.values_list(*JOB_COLUMNS, "last").first()
    return None if found is None else "|".join(map(str, found))


def _checkpoint_state(target: str) -> str | None:
    run, _slash, name = target.partition("/")
    found = Run.objects.filter(uid=run, checkpoints__checkpoint_id=name).exists()
    return "" if found else None


READERS: dict[str, Callable[[str], str | None]] = {
    Kind.RUN: _run_state,
    Kind.JOB: _job_state,
    Kind.CHECKPOINT: _checkpoint_state,
}
