"""Effects: what a checkpoint would execute or reach besides the project's own code. Imports nothing."""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from forkline_runner import resolving
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import Request

MAX_EFFECTS = 300
MAX_NAME = 300
# The runners refuse deeper values of a tool.
MAX_DEPTH = 60
# Of a long value, its start and its end are shown.
MAX_START, MAX_END = 140, 60
HIDDEN = "[redacted]"
SECRET_WORDS = {
    *("token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd"),
    *("credential", "credentials", "apikey"),
}
KEY_WORDS = {"api", "private", "access", "auth", "encryption", "signing"}
ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S")
HOST_NAME = re.compile(
    r"(?:[\w-]+\.)+[A-Za-z]{2,}(?::\d+)?|\d+(?:\.\d+){3}(?::\d+)?|\[?[0-9A-Fa-f]*(?::[0-9A-Fa-f.]*){2,}\]?(?::\d+)?"
)
# What keys consist of, with the name before a value.
WORD = re.compile(r"[A-Za-z0-9_+=~%.@$!#*^-]+")
PATH = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:\\")
# The words of a field's name that say what its value is. Every other value is listed as well, as a value.
WORDS = {
    "command": """
        args argv bin binary cmd cmdline code command commands exec executable expression function program
        python query script shell sql statement
        """,
    "host": """
        address addresses broker domain domains dsn endpoint endpoints host hostname hosts ip ips
        origin proxies proxy server servers uri uris url urls webhook
        """,
    "file": """
        cwd database db dest destination dir directories directory dirs file filename files folder folders
        path paths root source
        """,
}
KIND_OF_WORD = {word: kind for kind, words in WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class Effect:
    """``kind`` is module, command, file, host, key or value.

    ``name`` and ``detail`` are shown. ``digest`` is a hash of the complete content: of a module's source, or
    of a value. ``tool`` is what gets the value in ``field``, and ``given`` a hash of everything that it gets.
    """

    kind: str
    name: str
    detail: str = ""
    digest: str = ""
    tool: str = ""
    field: str = ""
    given: str = ""

    @property
    def key(self) -> str:
        """The text under which the effect is accepted and stored. Pages may redact its name.

        A value that was accepted for one field of a tool is another effect in another field, in another tool,
        and next to other values: reading a file is not deleting it.
        """
        parts = [self.kind, self.tool, self.field, self.digest or self.name, self.given]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def __str__(self) -> str:
        if not self.field:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.tool} {self.field} = {self.name}"


def unaccepted(found: Iterable[Effect], request: Request) -> list[Effect]:
    """Return the effects that nobody has accepted for the project."""
    accepted = set(request.get("accepted_effects") or [])
    return [] if "*" in accepted else [effect for effect in found if effect.key not in accepted]


def refuse_unaccepted(found: Iterable[Effect], request: Request) -> None:
    """Raise Refused unless a person has accepted all of these effects, as they are now."""
    if missing := unaccepted(found, request):
        raise refusal_of(missing)


def refusal_of(missing: Iterable[Effect]) -> Refused:
    """Return the refusal of effects that nobody has accepted."""
    return Refused("runner.effects_not_accepted", effects="; ".join(map(str, missing)))


def plain(found: Iterable[Effect], request: Request) -> list[dict[str, str]]:
    """Return the effects for a report, those that nobody has accepted first."""
    found = list(found)
    missing = set(unaccepted(found, request))
    ordered = sorted(found, key=lambda effect: effect not in missing)
    return [{**asdict(effect), "key": effect.key} for effect in ordered[:MAX_EFFECTS]]


def values_in(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each text, number and truth value in a JSON value, with its path in it.

    A name below which there is no value is yielded as one: it may be all that counts. What is too deep is
    yielded as JSON.
    """
    if depth > MAX_DEPTH:
        yield path, json.dumps(value, sort_keys=True)
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = name if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"
            below = list(values_in(item, f"{path}.{inner}" if path else inner, depth + 1))
            yield from below or ([(path, name)] if depth else [])
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from values_in(item, f"{path}[{number}]", depth + 1)
    elif value is not None:
        yield path, value


def value_effect(tool: str, field: str, value: Any, given: str) -> Effect:
    """Return the effect of a value that a checkpoint gives to a field of a tool."""
    text = value if isinstance(value, str) and value else json.dumps(value)
    name = HIDDEN if _is_secret_field(field) else shortened_text(text)
    return Effect(
        kind_of_value(field, text), name, f"{tool}: {field}"[:MAX_NAME], digest_of(value), tool, field, given
    )


def kind_of_value(field: str, text: str) -> str:
    """Return what a value is by the name of its field, else by its text: command, host, file or value."""
    for word in reversed(_words_of(field)):
        if kind := KIND_OF_WORD.get(word):
            # A path or an address says more than a word such as "source".
            return "host" if kind == "file" and ADDRESS.search(text) else kind
    if ADDRESS.search(text) or HOST_NAME.fullmatch(text):
        return "host"
    return "file" if PATH.match(text) else "value"


def is_secret(name: str) -> bool:
    """Return whether a field's or a class's name says that it holds a secret."""
    words = _words_of(name)
    is_key = any(first in KEY_WORDS and last == "key" for first, last in pairwise(words))
    return is_key or bool(SECRET_WORDS & set(words))


def _is_secret_field(path: str) -> bool:
    """Return whether a value is a secret by its name, or by those above if its own does not say what it is.

    A host below a secret name stays visible: a person has to know what is accepted.
    """
    above, _dot, name = path.rpartition(".")
    return is_secret(name) or (is_secret(above) and not KIND_OF_WORD.keys() & set(_words_of(name)))


def digest_of(value: Any) -> str:
    """Return a SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def shortened_text(text: str) -> str:
    """Return a text that may be shown: of a long one, its start, its length and its end.

    Without the words that the cuts would divide: a part of a key is not recognised as a secret.
    """
    if len(text) <= MAX_START + MAX_END:
        return text
    start, end = text[:MAX_START], text[-MAX_END:]
    if WORD.match(text, MAX_START):
        start = start[: len(start) - len(_part_of_key(start[::-1]))]
    if WORD.match(text, len(text) - MAX_END - 1):
        end = end[len(_part_of_key(end)) :]
    return f"{start} … ({len(text):,}) … {end}"


def _part_of_key(text: str) -> str:
    """Return the word with which a text begins if it has a digit, as keys do; else an empty text."""
    found = WORD.match(text)
    return found[0] if found and re.search("[0-9]", found[0]) else ""


def _words_of(name: str) -> list[str]:
    """Return the words of a name such as ``filePath`` or ``config.file-path``, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^A-Za-z]+", spaced.lower()) if word]


# What source code says about a class: whether it only holds data, and the values that it gets.
#
# Only reads: imports nothing. Making a class that only holds data runs no code of the project with the stored
# values: it has no constructor, validator or converter of its own, and all its bases and the types of its
# validated fields are known to hold data.


# How many classes are read as bases and types of fields.
MAX_CLASSES = 300
INSTALLED = {"site-packages", "dist-packages"}
TYPING = ("typing", "typing_extensions")
VALIDATING_BASES = {
    *(f"{module}.BaseModel" for module in ("pydantic", "pydantic.main", "pydantic.v1")),
    "pydantic.RootModel",
}
BASES = {
    *(f"enum.{name}" for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")),
    *(f"{module}.{name}" for module in TYPING for name in ("NamedTuple", "TypedDict", "Generic", "Protocol")),
    *(
        f"builtins.{name}"
        for name in ("object", "str", "int", "float", "dict", "list", "tuple", "set", "bytes")
    ),
    *(f"langgraph.graph{module}.MessagesState" for module in ("", ".message")),
}
DATACLASS, VALIDATING_DATACLASS = "dataclasses.dataclass", "pydantic.dataclasses.dataclass"
CLASS_DECORATORS = {
    *(DATACLASS, VALIDATING_DATACLASS, "enum.unique", "functools.total_ordering"),
    *(f"{module}.{name}" for module in TYPING for name in ("final", "runtime_checkable")),
}
# Decorators of methods that are not called when an object is made.
METHOD_DECORATORS = {
    *("builtins.property", "builtins.staticmethod", "builtins.classmethod", "functools.cached_property"),
    *(
        "abc.abstractmethod",
        "pydantic.computed_field",
        "pydantic.field_serializer",
        "pydantic.model_serializer",
    ),
    *(f"{module}.{name}" for module in TYPING for name in ("override", "overload")),
}
# Methods that Python, pydantic or an enumeration calls with the stored values.
CALLED = {
    *("__init__", "__new__", "__post_init__", "__post_init_post_parse__", "model_post_init", "_missing_"),
    *("__init_subclass__", "__class_getitem__", "__setattr__", "__getattr__", "__getattribute__", "__set__"),
    *("__del__", "__setstate__", "__hash__", "__eq__", "__get_pydantic_core_schema__", "__get_validators__"),
    *("_generate_next_value_", "construct", "model_construct", "model_validate", "parse_obj"),
}
# Types that pydantic validates without a side effect.
FIELD_TYPES = {
    *(f"builtins.{name}" for name in ("str", "int", "float", "bool", "bytes", "complex", "object", "None")),
    *(f"builtins.{name}" for name in ("list", "dict", "set", "frozenset", "tuple", "type")),
    *(f"datetime.{name}" for name in ("datetime", "date", "time", "timedelta", "timezone")),
    *("uuid.UUID", "decimal.Decimal", "pathlib.Path", "pathlib.PurePath", "fractions.Fraction"),
    *(f"pydantic.Strict{name}" for name in ("Str", "Int", "Bool", "Float", "Bytes")),
    *(
        f"pydantic.{sign}{kind}"
        for sign in ("Positive", "NonNegative", "Negative")
        for kind in ("Int", "Float")
    ),
    *(
        f"pydantic.{name}"
        for name in ("SecretStr", "SecretBytes", "HttpUrl", "AnyUrl", "AnyHttpUrl", "UUID4")
    ),
}
# What may be the metadata of a field: numbers for validation, and reducers, which are not called then.
METADATA = {"pydantic.Field", "pydantic.types.Field", "operator.add", "operator.or_"}
# Values at their paths, as JSON: in Python, true equals 1.
Held = set[tuple[str, str]]


def is_data_class(module: str, name: str, known: Iterable[tuple[str, str]] = ()) -> bool:
    """Return whether source that is not of an installed package defines a class that only holds data.

    ``known`` are the modules and names of other classes that only hold data.
    """
    return _is_data(module, name, dict.fromkeys((f"{where}.{what}" for where, what in known), True))


def _is_data(module: str, name: str, decided: dict[str, bool]) -> bool:
    """``decided`` has the classes that were read before, and those that are being read as data."""
    full = f"{module}.{name}"
    if full not in decided:
        node, files = resolving.class_in_source(module, name), resolving.files_if_found(module)
        # An installed class is not the project's own.
        is_own = node is not None and not INSTALLED & set(Path(files[-1].path).resolve().parts)
        decided[full] = is_own and len(decided) < MAX_CLASSES
        if node is not None and decided[full]:
            names = _Names(files[-1], decided)
            decided[full] = names.are_unambiguous(name) and names.holds_only_data(node)
    return decided[full]


class _Names:
    """What the names in one module's source refer to."""

    def __init__(self, file: resolving.ModuleFile, decided: dict[str, bool]) -> None:
        self.module, self.decided, tree = file.name, decided, resolving.parsed(file)
        self.imported: dict[str, str] = {}
        self.functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
        self.bound = Counter(one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef))
        self.bound.update(list(self.functions))
        # This includes fields of classes, which are not names of the module. They are too few to matter.
        self.bound.update(one.id for one in ast.walk(tree) if _is_bound(one))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.bound.update({one.asname or one.name.partition(".")[0] for one in node.names})
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.imported[one.asname or top] = one.name if one.asname else top
            elif isinstance(node, ast.ImportFrom):
                source = resolving.imported_from(node, file)
                self.imported.update({one.asname or one.name: f"{source}.{one.name}" for one in node.names})

    def are_unambiguous(self, *names: str) -> bool:
        """Return whether the source gives each of these names at most one meaning."""
        return all(self.bound[name] <= 1 for name in names)

    def holds_only_data(self, node: ast.ClassDef) -> bool:
        """Return whether making this class runs none of the project's code with the stored values."""
        decorators = {
            self.full(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list
        }
        bases = [self.full(one.value if isinstance(one, ast.Subscript) else one) for one in node.bases]
        if not decorators <= CLASS_DECORATORS or any(one.arg in (None, "metaclass") for one in node.keywords):
            return False
        if not all(base in BASES | VALIDATING_BASES or self.is_known(base) for base in bases):
            return False
        # The fields of a class whose base validates are validated as well.
        is_plain = bool(bases) and all(base in BASES for base in bases)
        is_validated = VALIDATING_DATACLASS in decorators or (bool(bases) and not is_plain)
        return all(self._is_harmless(one, is_validated=is_validated) for one in node.body)

    def _is_harmless(self, node: ast.stmt, *, is_validated: bool) -> bool:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node.name not in CALLED and all(
                self.full(one.func if isinstance(one, ast.Call) else one) in METHOD_DECORATORS
                or (isinstance(one, ast.Attribute) and one.attr in ("setter", "deleter"))
                for one in node.decorator_list
            )
        if isinstance(node, ast.AnnAssign):
            return _targets(node).isdisjoint(CALLED) and (
                not is_validated or (self._is_type(node.annotation) and self._is_default(node.value))
            )
        if isinstance(node, ast.Assign):
            return _targets(node).isdisjoint(CALLED) and (not is_validated or self._is_default(node.value))
        if isinstance(node, ast.ClassDef):
            return not is_validated or node.name == "Config"
        return isinstance(node, ast.Pass) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )

    def _is_type(self, node: ast.expr) -> bool:
        """Return whether validating a value of this type runs no code of the project."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self._is_type(ast.parse(node.value, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError):
                return False
        if isinstance(node, ast.Constant):
            return node.value in (None, ...)
        if isinstance(node, ast.BinOp | ast.Tuple | ast.List):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else node.elts
            return all(map(self._is_type, parts))
        if isinstance(node, ast.Subscript):
            outer = self.full(node.value)
            if outer in {f"{module}.Literal" for module in TYPING}:
                return True
            if outer in {f"{module}.Annotated" for module in TYPING} and isinstance(node.slice, ast.Tuple):
                first, *metadata = node.slice.elts
                return self._is_type(first) and all(map(self._is_metadata, metadata))
            return self._is_type(node.value) and self._is_type(node.slice)
        name = self.full(node)
        top = name.rpartition(".")[0]
        return name in FIELD_TYPES or top in (*TYPING, "collections.abc") or self.is_known(name)

    def _is_metadata(self, node: ast.expr) -> bool:
        name = self.full(node.func if isinstance(node, ast.Call) else node)
        return isinstance(node, ast.Constant) or name in METADATA or name.endswith(".add_messages")

    def _is_default(self, node: ast.expr | None) -> bool:
        """Return whether a default is made without the other values, which pydantic passes on request."""
        for one in ast.walk(node) if node is not None else ():
            if isinstance(one, ast.Lambda) and (one.args.args or one.args.posonlyargs or one.args.vararg):
                return False
            if isinstance(one, ast.Name) and one.id in self.functions and self.functions[one.id].args.args:
                return False
        return True

    def is_known(self, name: str) -> bool:
        """Return whether a class of the project, or a known one, only holds data."""
        module, _dot, own = name.rpartition(".")
        if name in self.decided:
            return self.decided[name]
        # The engine's packages offer the classes of their modules under a shorter name.
        if any(_is_offered(module, own, one) for one, is_data in self.decided.items() if is_data):
            return True
        return bool(module) and _is_data(module, own, self.decided)

    def full(self, node: ast.expr) -> str:
        """Return the module and name that an expression refers to; empty for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not self.are_unambiguous(node.id):
            return ""
        if node.id in self.imported:
            return ".".join([self.imported[node.id], *parts])
        if hasattr(builtins, node.id) and not parts and not self.bound[node.id]:
            return f"builtins.{node.id}"
        return ".".join([self.module, node.id, *parts])


@cache
def _is_offered(package: str, name: str, known: str) -> bool:
    is_of_engine = package.partition(".")[0] in ("langchain_core", "langgraph") and "." in package
    return is_of_engine and known.startswith(f"{package}.") and known.endswith(f".{name}")


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _targets(node: ast.AnnAssign | ast.Assign) -> set[str]:
    return set(_names_in(node.targets if isinstance(node, ast.Assign) else [node.target]))


def _names_in(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                yield one.id


def differing_values(
    module: str, name: str, fields: Mapping[str, Any], imported: set[str]
) -> list[tuple[str, Any]]:
    """Return the values in an object's fields that the code does not give to its class, with their paths.

    A value is given if it is a default in the class's own module, or if the project calls the class with it.
    What cannot be read counts as not given.
    Only one call counts: values of several calls next to each other are not what the code does. ``imported``
    are the modules that the project's entry points import.
    """
    values = list(values_in(dict(fields)))
    defaults = _defaults(module, name)
    open_values = [one for one in values if _held(*one) not in defaults]
    best: Held = set()
    for given in _calls(module, name, imported) if open_values else ():
        held = {_held(*one) for one in open_values} & given
        best = max(best, held, key=len)
    return [one for one in open_values if _held(*one) not in best]


def _held(path: str, value: Any) -> tuple[str, str]:
    return path, json.dumps(value)


def _defaults(module: str, name: str) -> Held:
    """Return the defaults of the fields of a class, and of its bases in the same module."""
    found: dict[str, Any] = {}
    waiting, seen = [name], set()
    while waiting:
        current = waiting.pop(0)
        node = resolving.class_in_source(module, current)
        if node is None or current in seen:
            continue
        seen.add(current)
        waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
                found.setdefault(line.target.id, _literal(line.value, {}))
    return {_held(*one) for one in values_in(found)}


def _calls(module: str, name: str, imported: set[str]) -> Iterator[Held]:
    """Yield the arguments of each call of a class in the project's own modules."""
    for own in sorted(imported):
        files = resolving.files_if_found(own)
        if not files or files[-1].name != own or not resolving.is_below(Path(files[-1].path), Path.cwd()):
            continue
        tree = resolving.parsed(files[-1])
        if own != module and not _imports(tree, files[-1], module, name):
            continue
        constants = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                given = {one.arg: _literal(one.value, constants) for one in node.keywords if one.arg}
                yield {_held(*one) for one in values_in(given)}


def _imports(tree: ast.Module, file: resolving.ModuleFile, module: str, name: str) -> bool:
    """Return whether a module imports this class under its own name, from its module or a package above."""
    return any(
        alias.name == name and alias.asname in (None, name) and f"{module}.".startswith(f"{base}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (base := resolving.imported_from(node, file))
        for alias in node.names
    )


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the constants that a module assigns exactly once."""
    names = [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    found = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and names.count(target.id) == 1:
            found[target.id] = _literal(node.value, {})
    return found


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of an expression as JSON; None for what is not a literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bool | int | float) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item, constants) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            key.value: _literal(value, constants)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call):
        return _literal_call(node, constants)
    return _literal(node.body, constants) if isinstance(node, ast.Lambda) else None


def _literal_call(node: ast.Call, constants: Mapping[str, Any]) -> Any:
    """Return the arguments of a call by name, which are the fields of a model; of ``Field``, its default."""
    given = {one.arg: _literal(one.value, constants) for one in node.keywords if one.arg}
    if not isinstance(node.func, ast.Name) or node.func.id != "Field":
        return given
    first = _literal(node.args[0], constants) if node.args else None
    return given.get("default", given.get("default_factory", first))
