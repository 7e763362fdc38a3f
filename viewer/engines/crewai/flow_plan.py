"""Computes what follows in a flow: the methods that run, and those that its routers may lead to.

Nothing is read or written.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# A hostile record may claim any number of iterations of a loop.
MAX_METHOD_RUNS = 20_000


@dataclass(frozen=True, slots=True)
class Condition:
    """The methods or routes that trigger a method: one of ``names``, or all of them if ``needs_all``."""

    names: tuple["str | Condition", ...]
    needs_all: bool = False

    def is_met(self, seen: Iterable[str]) -> bool:
        """Whether the methods and routes in ``seen`` meet the condition."""
        known = set(seen)
        found = [name in known if isinstance(name, str) else name.is_met(known) for name in self.names]
        return all(found) if self.needs_all else any(found)

    def mentioned(self) -> Iterator[str]:
        """Every method and route that the condition names."""
        for name in self.names:
            if isinstance(name, str):
                yield name
            else:
                yield from name.mentioned()


@dataclass(frozen=True, slots=True)
class FlowMethod:
    """A method as the project's source declares it. ``starts`` is true for a start; it may have a condition.

    ``labels`` are the labels that a router returns, as far as the source shows. ``is_open`` is true if it
    may return other labels.
    """

    name: str
    starts: bool = False
    starts_on: Condition | None = None
    listens_to: Condition | None = None
    is_router: bool = False
    labels: tuple[str, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The methods that a router's ``label`` triggers; empty if nothing listens to the label."""

    label: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RouterDecision:
    """A router that runs or may run. ``is_open`` is true if it may return labels without a route."""

    router: str
    routes: tuple[Route, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class Following:
    """What follows in a flow. ``certain`` methods run; ``possible`` methods run if a router leads to them.

    ``fits`` is False if the flow's source cannot have led to the record.
    """

    certain: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    decisions: tuple[RouterDecision, ...] = ()
    fits: bool = True


@dataclass(slots=True)
class _Walk:
    """Follows the recorded part of a run as the engine does."""

    methods: Sequence[FlowMethod]
    left: dict[str, int]
    results: Mapping[str, Sequence[str]]
    taken: dict[str, int] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=dict)
    # Listeners to any of several names that have run. They run again only after a method runs again.
    fired: set[str] = field(default_factory=set)
    happened: set[str] = field(default_factory=set)
    # Methods that were reached and have not been recorded.
    next: list[str] = field(default_factory=list)
    # Routers whose recorded result is not known.
    unclear: list[str] = field(default_factory=list)

    def walk(self) -> None:
        starts = [one for one in self.methods if one.starts]
        at_once = [one for one in starts if one.starts_on is None] or starts
        waiting = deque(one.name for one in at_once)
        by_name = {one.name: one for one in self.methods}
        for _ in range(MAX_METHOD_RUNS):
            if not waiting:
                return
            name = waiting.popleft()
            if not self.left.get(name):
                self.next.append(name)
                continue
            waiting.extend(self._run(by_name[name]))

    def _run(self, method: FlowMethod) -> list[str]:
        """The methods that one recorded execution of this method triggers."""
        self.left[method.name] -= 1
        number = self.taken.get(method.name, 0)
        self.taken[method.name] = number + 1
        if number:
            self.fired.clear()
        reached = self._triggered(method.name, False)
        if method.is_router:
            results = self.results.get(method.name, ())
            if number < len(results):
                reached += self._triggered(results[number], True)
            else:
                self.unclear.append(method.name)
        return reached

    def _triggered(self, label: str, is_route: bool) -> list[str]:
        self.happened.add(label)
        reached = []
        for one in self.methods:
            if is_route and one.starts_on and label in one.starts_on.mentioned():
                reached.append(one.name)
            condition = one.listens_to
            if condition is None or label not in condition.mentioned() or one.name in self.fired:
                continue
            seen = self.seen.setdefault(one.name, set())
            seen.add(label)
            if condition.is_met(seen):
                del self.seen[one.name]
                reached.append(one.name)
                if not one.is_router and not condition.needs_all and len(condition.names) > 1:
                    self.fired.add(one.name)
        return list(dict.fromkeys(reached))


def following(
    methods: Sequence[FlowMethod], counts: Mapping[str, int], results: Mapping[str, Sequence[str]]
) -> Following:
    """Return what follows after each method has finished ``counts`` times.

    ``results`` are the labels that the routers have returned, by router, oldest first.
    """
    names = {one.name for one in methods}
    walk = _Walk(methods, {name: count for name, count in counts.items() if name in names}, results)
    walk.walk()
    fits = bool(walk.unclear or not any(walk.left.values())) and not counts.keys() - names
    certain, possible = dict.fromkeys(walk.next), dict.fromkeys(walk.unclear)
    decisions: dict[str, RouterDecision] = {}
    _reach(methods, certain, walk.happened, decisions)
    for router in walk.unclear:
        decisions.setdefault(router, _decision(methods, next(one for one in methods if one.name == router)))
    wanted = deque(decision for decision in decisions.values())
    while wanted:
        reached = dict.fromkeys(name for route in wanted.popleft().routes for name in route.methods)
        fresh = {name: None for name in reached if name not in possible}
        possible |= fresh
        more: dict[str, RouterDecision] = {}
        happened = walk.happened | certain.keys() | possible.keys()
        _reach(methods, fresh, happened, more)
        possible |= fresh
        wanted.extend(decision for name, decision in more.items() if name not in decisions)
        decisions = {**more, **decisions}
    left = tuple(name for name in possible if name not in certain and name not in walk.unclear)
    return Following(tuple(certain), left, tuple(decisions.values()), fits)


def _reach(
    methods: Sequence[FlowMethod],
    reached: dict[str, None],
    happened: set[str],
    decisions: dict[str, RouterDecision],
) -> None:
    """Add to ``reached`` what follows without a router's decision, and to ``decisions`` its routers."""
    by_name = {one.name: one for one in methods}
    waiting = deque(reached)
    while waiting:
        name = waiting.popleft()
        if by_name[name].is_router:
            decisions.setdefault(name, _decision(methods, by_name[name]))
        for one in methods:
            condition = one.listens_to
            if one.name in reached or condition is None or name not in condition.mentioned():
                continue
            if condition.is_met(happened | reached.keys()):
                reached[one.name] = None
                waiting.append(one.name)


def _decision(methods: Sequence[FlowMethod], router: FlowMethod) -> RouterDecision:
    labels = list(router.labels)
    if router.is_open:
        names = {one.name for one in methods}
        others = {label for one in methods if not one.is_open for label in one.labels}
        conditions = [part for one in methods for part in (one.listens_to, one.starts_on) if part]
        heard = dict.fromkeys(label for condition in conditions for label in condition.mentioned())
        labels += [label for label in heard if label not in names | others and label not in labels]
    return RouterDecision(
        router.name, tuple(Route(label, _listening(methods, label)) for label in labels), router.is_open
    )


def _listening(methods: Sequence[FlowMethod], label: str) -> tuple[str, ...]:
    return tuple(
        one.name
        for one in methods
        if any(part and label in part.mentioned() for part in (one.listens_to, one.starts_on))
    )
