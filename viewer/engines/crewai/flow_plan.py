"""What follows in a flow, and its methods as the project's source declares them. Nothing is run."""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viewer.engines.crewai.entry_points import Definition, is_file, read_definition
from viewer.engines.crewai.input_names import sources_of
from viewer.engines.crewai.recorded_events import mapping
from viewer.engines.entry_points import aliases_in, assigned_texts, last_name
from viewer.engines.plan import Decision, Route

# Computes the methods that run next, and those that routers may lead to.


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
class Following:
    """What follows in a flow. ``certain`` methods run; ``possible`` methods run if a router leads to them.

    ``decisions`` are those of the routers that run or may run, by the labels that they may return.
    ``fits`` is False if the flow's source cannot have led to the record.
    """

    certain: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
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
    decisions: dict[str, Decision] = {}
    _reach(methods, certain, walk.happened, decisions)
    for router in walk.unclear:
        decisions.setdefault(router, _decision(methods, next(one for one in methods if one.name == router)))
    wanted = deque(decision for decision in decisions.values())
    while wanted:
        reached = dict.fromkeys(name for route in wanted.popleft().routes for name in route.units)
        fresh = {name: None for name in reached if name not in possible}
        possible |= fresh
        more: dict[str, Decision] = {}
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
    decisions: dict[str, Decision],
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


def _decision(methods: Sequence[FlowMethod], router: FlowMethod) -> Decision:
    labels = list(router.labels)
    if router.is_open:
        names = {one.name for one in methods}
        others = {label for one in methods if not one.is_open for label in one.labels}
        conditions = [part for one in methods for part in (one.listens_to, one.starts_on) if part]
        heard = dict.fromkeys(label for condition in conditions for label in condition.mentioned())
        labels += [label for label in heard if label not in names | others and label not in labels]
    return Decision(
        router.name, tuple(Route(label, _listening(methods, label)) for label in labels), router.is_open
    )


def _listening(methods: Sequence[FlowMethod], label: str) -> tuple[str, ...]:
    return tuple(
        one.name
        for one in methods
        if any(part and label in part.mentioned() for part in (one.listens_to, one.starts_on))
    )


# Finds the methods of a flow and their triggers by reading the project's source. Nothing is run.


MAX_METHODS = 300
MAX_DEPTH = 20
QUOTED = re.compile(r"'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"")
DECORATORS = {"start", "listen", "router", "human_feedback"}


def flow_methods(folder: Path, entry_point: str) -> tuple[FlowMethod, ...]:
    """Return the flow's methods in order; empty if the source does not show them."""
    if is_file(entry_point):
        found = _declared(read_definition(folder, entry_point))
    else:
        module, _, name = entry_point.partition(":")
        found = _in_source(folder, module, name)
    return tuple(found)[:MAX_METHODS]


@dataclass(slots=True)
class _Names:
    """The definitions that names refer to in a flow's modules."""

    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def original(self, node: ast.AST) -> str:
        """Return the last part of a name, with an import's alias resolved."""
        return last_name(node, self.aliases)


def _in_source(folder: Path, module: str, name: str) -> list[FlowMethod]:
    sources = list(sources_of(folder, module))
    names = _names_in([tree for _, tree in sources])
    function = names.functions.get(name)
    if function is not None and name not in names.classes:
        declared = _file_in(function, folder, sources[0][0].parent)
        if declared:
            return _declared(read_definition(folder, declared))
        name = _made_by(function, names)
    found: dict[str, FlowMethod] = {}
    for flow in _with_parents(name, names, set()):
        for node in flow.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = _method(node, names)
    return [one for one in found.values() if one.starts or one.listens_to or one.is_router]


def _file_in(function: ast.FunctionDef, folder: Path, module_folder: Path) -> str:
    """Return the path of the declaration that the function names; empty if the project has no such file."""
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_file(node.value):
            for path in (module_folder / node.value, folder / node.value):
                if path.is_file() and path.is_relative_to(folder):
                    return path.relative_to(folder).as_posix()
    return ""


def _made_by(function: ast.FunctionDef, names: _Names) -> str:
    """Return the name of the class that the function returns; empty if the project does not define it."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    called = (names.original(one) for one in (function.returns, *returned) if one is not None)
    return next((name for name in called if name in names.classes), "")


def _names_in(trees: list[ast.Module]) -> _Names:
    names = _Names()
    for tree in reversed(trees):  # the entry point's own module overrides the others
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                names.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef):
                names.functions[node.name] = node
        names.texts |= assigned_texts(tree.body)
        names.aliases |= aliases_in(tree)
    return names


def _with_parents(name: str, names: _Names, seen: set[str], depth: int = 0) -> Iterator[ast.ClassDef]:
    """Yield the parents of a class that the project defines, and then the class, each once."""
    flow = names.classes.get(name)
    if flow is None or name in seen or depth > MAX_DEPTH:
        return
    seen.add(name)
    for base in reversed(flow.bases):
        yield from _with_parents(names.original(base), names, seen, depth + 1)
    yield flow


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, names: _Names) -> FlowMethod:
    made = FlowMethod(node.name)
    for decorator in node.decorator_list:
        kind = names.original(decorator)
        if kind not in DECORATORS:
            continue
        call = decorator if isinstance(decorator, ast.Call) else None
        given = call.args[0] if call and call.args else None
        condition = _condition(given, names) if given is not None else None
        if kind == "start":
            made = replace(made, starts=True, starts_on=condition)
        elif kind == "listen":
            made = replace(made, listens_to=condition)
        emit = _emitted(call, names)
        if kind == "router":
            labels, is_open = (emit, False) if emit else _labels(node, names)
            made = replace(made, is_router=True, labels=labels, is_open=is_open)
            made = replace(made, listens_to=condition or made.listens_to)
        elif kind == "human_feedback" and emit:
            made = replace(made, is_router=True, labels=emit)
    return made


def _condition(node: ast.expr, names: _Names, depth: int = 0) -> Condition | None:
    """The condition in the argument of a decorator; None if it cannot be read."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, ast.Call) and names.original(node) in {"or_", "and_"}:
        parts = [_condition(one, names, depth + 1) for one in node.args]
        if not parts or any(part is None for part in parts):
            return None
        plain = [part.names[0] if len(part.names) == 1 else part for part in parts if part]
        return Condition(tuple(plain), names.original(node) == "and_")
    text = _text(node, names)
    return Condition((text,)) if text else None


def _text(node: ast.expr, names: _Names) -> str:
    """Return the label or method name that an expression refers to, or an empty string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Attribute):
        owner = node.value if node.attr == "value" else node
        if isinstance(owner, ast.Attribute) and (members := _members(names.original(owner.value), names)):
            return members.get(owner.attr, "")
        return node.attr
    return names.texts.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _members(name: str, names: _Names) -> dict[str, str]:
    """The texts of an enumeration by the names of its members."""
    found = names.classes.get(name)
    return assigned_texts(found.body if found else ())


def _emitted(call: ast.Call | None, names: _Names) -> tuple[str, ...]:
    for keyword in call.keywords if call else ():
        if keyword.arg == "emit":
            value = keyword.value
            listed = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            return tuple(text for one in listed if (text := _text(one, names)))
    return ()


def _labels(node: ast.FunctionDef | ast.AsyncFunctionDef, names: _Names) -> tuple[tuple[str, ...], bool]:
    """Return a router's labels, from its annotation or return statements, and whether there may be others."""
    found = list(_annotated(node.returns, names)) if node.returns else []
    if found:
        return tuple(dict.fromkeys(found)), False
    is_open = False
    choices = list(_returned(node.body))[::-1]
    while choices:
        one = choices.pop()
        if isinstance(one, ast.IfExp):
            choices += [one.orelse, one.body]
        elif label := _label(one, names):
            found.append(label)
        elif not (isinstance(one, ast.Constant) and one.value is None):
            is_open = True
    return tuple(dict.fromkeys(found)), is_open


def _label(node: ast.expr, names: _Names) -> str:
    """Return the label that a return statement returns; empty if it is not a constant."""
    if isinstance(node, ast.Name):
        return names.texts.get(node.id, "")
    is_sure = isinstance(node, ast.Constant) or (isinstance(node, ast.Attribute) and _is_member(node, names))
    return _text(node, names) if is_sure else ""


def _is_member(node: ast.Attribute, names: _Names) -> bool:
    owner = node.value if node.attr == "value" else node
    return isinstance(owner, ast.Attribute) and bool(_members(names.original(owner.value), names))


def _returned(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the expressions that a function returns, without those of functions inside it."""
    # Not recursive: each branch of a chain of elif is within the one before.
    left: list[ast.AST] = [*reversed(body)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Return):
            if node.value is not None:
                yield node.value
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            parts = ("body", "orelse", "finalbody", "handlers", "cases")
            inner = [one for name in parts for one in getattr(node, name, None) or ()]
            left += reversed(inner)


def _annotated(node: ast.expr, names: _Names, depth: int = 0) -> Iterator[str]:
    """The texts of a Literal or an enumeration in an annotation, also inside a union."""
    if depth > MAX_DEPTH:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            yield from _annotated(ast.parse(node.value, mode="eval").body, names, depth + 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
    elif isinstance(node, ast.BinOp):
        yield from _annotated(node.left, names, depth + 1)
        yield from _annotated(node.right, names, depth + 1)
    elif isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if names.original(node) == "Literal":
                yield from filter(None, [_text(part, names)])
            elif names.original(node) in {"Optional", "Union", "Annotated"}:
                yield from _annotated(part, names, depth + 1)
    else:
        yield from _members(names.original(node), names).values()


def _declared(definition: Definition) -> list[FlowMethod]:
    return [
        _declared_method(name, method)
        for name, method in mapping(definition.get("methods")).items()
        if isinstance(name, str) and isinstance(method, dict)
    ]


def _declared_method(name: str, method: Mapping[str, Any]) -> FlowMethod:
    start = method.get("start")
    emit = _strings(method.get("emit"))
    is_router = bool(method.get("router"))
    if outcomes := _strings(mapping(method.get("human_feedback")).get("emit")):
        emit, is_router = outcomes, True
    expression = str(mapping(method.get("do")).get("expr") or "")
    guessed = tuple(dict.fromkeys(one or other for one, other in QUOTED.findall(expression)))
    return FlowMethod(
        name,
        starts=bool(start),
        starts_on=None if start is True or not start else _declared_condition(start),
        listens_to=_declared_condition(method.get("listen")),
        is_router=is_router,
        labels=(emit or guessed) if is_router else (),
        is_open=is_router and not emit,
    )


def _declared_condition(value: Any, depth: int = 0) -> Condition | None:
    if isinstance(value, str):
        return Condition((value,))
    if not isinstance(value, dict) or depth > MAX_DEPTH:
        return None
    for key in ("and", "or"):
        listed = value.get(key)
        if isinstance(listed, list) and listed:
            parts = [_declared_condition(one, depth + 1) for one in listed[:MAX_METHODS]]
            plain = [part.names[0] if len(part.names) == 1 else part for part in parts if part]
            return Condition(tuple(plain), key == "and")
    return None


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
