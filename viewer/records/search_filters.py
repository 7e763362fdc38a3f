"""What a search is narrowed down to: words, and filters as conditions on rows."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.utils import timezone

from viewer.engines import all_engines
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Job, SearchEntry
from viewer.validation import InvalidInput, day, number, storable, whole_number

# The words that a person searches for.


# Characters and words of a query that are searched for. The rest is ignored.
MAX_QUERY, MAX_WORDS = 300, 12
# The fewest letters of the beginning of a word. Fewer would match too many words.
MIN_PREFIX = 3
# An excluded word or phrase, a phrase in quotes, or a word.
_PART = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')
_LETTER = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Words:
    """Words and phrases. ``all_of`` have to appear, ``none_of`` must not.

    ``prefix`` is the beginning of a word that has to appear; empty if there is none.
    """

    all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        """Whether there is anything to find. Excluded words alone find nothing."""
        return bool(self.all_of or self.prefix)


def words_in(query: str) -> Words:
    """The words of a query: ``-word`` excludes one, quotes hold a phrase, and the last word may go on.

    Everything else is text: no part of a query is an operator of the database.
    """
    all_of, none_of, prefix = list[str](), list[str](), ""
    text = query[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode()
    found = [match.groups() for match in _PART.finditer(text)]
    for minus, phrase, word in found[:MAX_WORDS]:
        text = phrase if phrase is not None else word
        if not _LETTER.search(text):
            continue
        (none_of if minus else all_of).append(text)
    if found and all_of and found[-1][2] == all_of[-1] and not found[-1][0] and len(all_of[-1]) >= MIN_PREFIX:
        prefix = all_of.pop()
    return Words(tuple(all_of), tuple(none_of), prefix)


# What a search is narrowed down to: plain values of an address or a command, as conditions on rows.


# Characters of a value, and the largest minimums.
MAX_VALUE = 300
MAX_TOKENS, MAX_COST = 10**15, 10**12
FAILED, WAITING, COMPLETED, PRUNED = STATUSES = "failed", "waiting", "completed", "pruned"
# The types of the filters that are no texts.
FILTER_TYPES: dict[str, Callable[[str], Any]] = {
    "since": day,
    "until": day,
    "tokens": lambda text: whole_number(text, 0, MAX_TOKENS),
    "cost": lambda text: number(text, 0, MAX_COST),
}
FILTER_NAMES = {
    "since": UserMessage("search.since"),
    "until": UserMessage("search.until"),
    "tokens": UserMessage("search.tokens"),
    "cost": UserMessage("search.cost"),
}
# Filters that are conditions on an entry rather than its checkpoint.
_OF_ENTRIES = ("kind", "agent", "unit", "model")


@dataclass(frozen=True, slots=True)
class Filters:
    """A search. Every value is a text as it was typed; an empty one does not filter.

    A search with a value that is not valid finds nothing: ``fault`` says which.

    ``q`` are the words, ``since`` and ``until`` days, ``tokens`` and ``cost`` minimums of the run's
    checkpoint and of the run, ``edited`` and ``unattended`` are "1" or empty. ``location`` is a UUID, a path
    or a part of one.
    """

    q: str = ""
    location: str = ""
    kind: str = ""
    entity: str = ""
    agent: str = ""
    unit: str = ""
    model: str = ""
    branch: str = ""
    trigger: str = ""
    status: str = ""
    since: str = ""
    until: str = ""
    tokens: str = ""
    cost: str = ""
    version: str = ""
    # The checkpoint begins with edits; it is a failure from which nobody has continued.
    edited: str = ""
    unattended: str = ""

    @property
    def query(self) -> str:
        """The query of its address."""
        return urlencode({name: value for name, value in asdict(self).items() if value})

    @property
    def names(self) -> str:
        """The names of what narrows it down, without the values."""
        return ", ".join(name for name, value in asdict(self).items() if value)

    @property
    def count(self) -> int:
        """How many filters there are besides the words."""
        return sum(bool(value) for name, value in asdict(self).items() if name != "q")

    @property
    def fault(self) -> UserMessage | None:
        """What is wrong with the first value that is not valid; None if all are."""
        for name in FILTER_TYPES:
            try:
                _value(self, name)
            except InvalidInput as error:
                return error.of(FILTER_NAMES[name])
        if self.status and self.status not in STATUSES:
            wanted = UserMessage("search.one_of", {"choices": ", ".join(STATUSES)})
            return InvalidInput(self.status, wanted).of(UserMessage("search.status"))
        return None

    def __bool__(self) -> bool:
        return bool(self.query)


def filters_from(values: Mapping[str, str]) -> Filters:
    """The filters among these values. Unknown names are ignored."""
    found = {field.name: str(values.get(field.name, "")).strip() for field in fields(Filters)}
    cut = {name: value[: MAX_QUERY if name == "q" else MAX_VALUE] for name, value in found.items()}
    return Filters(**{name: storable(value) for name, value in cut.items()})


def entries_matching(filters: Filters) -> QuerySet[SearchEntry]:
    """The entries to which the filters apply, apart from the words and the location."""
    conditions = _conditions(filters, "checkpoint__") & _entry_conditions(filters)
    # Joins the checkpoint even without a condition on it: an entry may outlive it.
    return SearchEntry.objects.filter(conditions, checkpoint__row__gte=0)


def checkpoints_matching(filters: Filters) -> QuerySet[Checkpoint]:
    """The checkpoints to which the filters apply, apart from the words and the location."""
    found = Checkpoint.objects.filter(_conditions(filters, ""))
    if any(getattr(filters, name) for name in _OF_ENTRIES):
        entries = SearchEntry.objects.filter(_entry_conditions(filters), checkpoint=OuterRef("pk"))
        found = found.filter(Exists(entries))
    return found


def _entry_conditions(filters: Filters) -> Q:
    wanted = Q()
    for name in _OF_ENTRIES:
        if value := getattr(filters, name):
            wanted &= Q(**{name: value})
    return wanted


def _conditions(filters: Filters, prefix: str) -> Q:
    """The conditions on a checkpoint, which ``prefix`` leads to."""
    equal = {
        "entity": filters.entity,
        "branch": filters.branch,
        "trigger": filters.trigger,
        "engine_version": filters.version,
    }
    wanted = Q(**{f"{prefix}{name}": value for name, value in equal.items() if value})
    if (tokens := _value(filters, "tokens")) is not None:
        wanted &= Q(**{f"{prefix}tokens__gte": tokens})
    if (cost := _value(filters, "cost")) is not None:
        wanted &= Q(**{f"{prefix}run__cost__gte": cost})
    # From the first moment of the one day to the last of the other, in the time zone of the page.
    if (since := _value(filters, "since")) is not None:
        wanted &= Q(**{f"{prefix}created_at__gte": _midnight(since)})
    if (until := _value(filters, "until")) is not None:
        wanted &= Q(**{f"{prefix}created_at__lt": _midnight(until + timedelta(days=1))})
    wanted &= _status(filters.status, prefix)
    if filters.edited:
        wanted &= _edited(prefix)
    return wanted & _unattended(prefix) if filters.unattended else wanted


def _status(status: str, prefix: str) -> Q:
    if status == FAILED:
        return _failed(prefix)
    if status == WAITING:
        return Q(**{f"{prefix}run__status": "waiting", f"{prefix}checkpoint_id": F(f"{prefix}run__head")})
    if status == COMPLETED:
        ends = {trigger for one in all_engines() for trigger in one.trigger_labels if one.is_end(trigger)}
        return Q(**{f"{prefix}trigger__in": sorted(ends)})
    gone = (Checkpoint.State.PRUNED, Checkpoint.State.NO_COPY)
    return Q(**{f"{prefix}state__in": gone}) if status == PRUNED else Q()


def _failed(prefix: str) -> Q:
    suffixes = {suffix for engine in all_engines() for suffix in engine.failure_suffixes}
    wanted = Q(pk__in=())
    for suffix in sorted(suffixes):
        wanted |= Q(**{f"{prefix}trigger__endswith": suffix})
    return wanted


def _unattended(prefix: str) -> Q:
    """A failure after which no checkpoint follows, of which no later attempt and no job was started."""
    later = Checkpoint.objects.filter(
        parent=OuterRef(f"{prefix}parent"), row__gt=OuterRef(f"{prefix}row"), run=OuterRef(f"{prefix}run")
    )
    jobs = Job.objects.filter(checkpoint=OuterRef(f"{prefix}parent"))
    jobs = jobs.filter(created_at__gt=OuterRef(f"{prefix}created_at"))
    return (
        _failed(prefix)
        & ~Exists(Checkpoint.objects.filter(parent=OuterRef(f"{prefix}pk")))
        & ~Exists(later)
        & ~Exists(Job.objects.filter(checkpoint=OuterRef(f"{prefix}pk")))
        & ~Exists(jobs)
    )


def _edited(prefix: str) -> Q:
    """The first checkpoint that a fork with edits wrote."""
    edits = Q()
    for name in ("request__inputs", "request__outputs", "request__state", "request__options__models"):
        edits |= Q(**{f"{name}__isnull": False}) & ~Q(**{name: {}}) & ~Q(**{name: None})
    jobs = Job.objects.alias(new_branch=KT("request__branch")).filter(
        edits, checkpoint=OuterRef(f"{prefix}parent"), new_branch=OuterRef(f"{prefix}recorded_branch")
    )
    return Q(Exists(jobs))


def _value(filters: Filters, name: str) -> Any:
    """The value of a filter that is no text; None if it is empty. Raises InvalidInput."""
    text = getattr(filters, name)
    return FILTER_TYPES[name](text) if text else None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
