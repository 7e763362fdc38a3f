"""What a person can run: kinds of root entities, entry points in source, their runner and its findings."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

# The events at which an engine can write a checkpoint.


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events at which the engine can write a checkpoint, by the engine's own names and in its own order."""

    name: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventPreset:
    """A usual choice of events. ``label`` is English, and marked for translation."""

    label: str
    events: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that a form sends."""
        return ",".join(self.events)


@dataclass(frozen=True, slots=True)
class GroupTraits:
    """What a form shows for a group of events.

    ``is_frequent`` is true if a checkpoint at each of these events makes many checkpoints.
    """

    label: str
    is_frequent: bool = False
    hint: str = ""


# The kinds of root entities: what each is called and what it can do.


@dataclass(frozen=True, slots=True)
class RootKind:
    """One kind of root entity, such as a team of agents or a graph. Its labels are English, to be translated.

    ``name`` is what rows store.
    """

    name: str
    label: str
    unit_label: str
    units_label: str
    # Forkline can fork and resume its runs, and start new ones.
    is_runnable: bool = True
    starts_new_runs: bool = True
    # Finished units can run again, and finished units that would run again can be held instead.
    can_rerun: bool = False
    can_hold: bool = False
    # Its checkpoints know only the units that have begun, so that their number is not known in advance.
    is_open_ended: bool = False
    # Why a run continues only with the project's own code, for a person who names no entry point.
    needs_entry_point: str = ""
    # Runs have a state, with or instead of inputs.
    has_state: bool = False
    # A model can be chosen for each agent, and the prompt cache be warmed.
    has_models: bool = False
    can_warm_cache: bool = False
    # Writes can be added to an entry of its state, so that an edit says whether it replaces the entry.
    adds_to_state: bool = False
    # A fork runs on a copy in a scratch store, so that the run at its location stays as it is.
    forks_on_copy: bool = False
    # Where such a fork can be published to, with labels. The first is the default.
    fork_targets: tuple[tuple[str, str], ...] = ()
    # The target can be chosen before the fork starts, and not only once it has ended.
    publishes_at_end: bool = True
    # A published fork begins with a copy of the forked checkpoint.
    copies_origin: bool = False
    # A hint on a fork that is published into the run that it forked.
    moves_head: str = ""
    # A hint on a fork that is published as a new run, and what such a run is called.
    published_hint: str = ""
    run_label: str = "run"
    # The label of the name of such a run, and a hint on it.
    published_name: str = "Name"
    published_name_hint: str = ""
    # A run can stop at breakpoints, and its code reads configurable values and context.
    has_run_settings: bool = False
    # How many of the newest checkpoints of a run and of the runs that it called are listed; 0 for all.
    max_listed: int = 0
    # Its runs read the checkpoint at its location: on its own host, a stored copy is not enough.
    needs_source: bool = False
    # A run on another host is published to this fork target.
    target_on_other_host: str = ""
    # It gets a copy of what it needs of the store, instead of the checkpoint's JSON.
    sends_store: bool = False
    # Its runs can write to a folder of JSON files.
    writes_folders: bool = True
    # Only the last checkpoint of a run can be resumed.
    resumes_last_only: bool = False
    # Only a checkpoint that waits for an answer can be resumed.
    resumes_only_answered: bool = False
    # Its checkpoints name code that is imported even if the project's own code makes the root entity.
    always_has_effects: bool = False
    # The outputs of finished units can be edited.
    can_edit_outputs: bool = False
    # A run is refused if it lacks an input that its source names.
    needs_all_inputs: bool = False
    # A hint on runs that use the project's code.
    entry_point_hint: str = ""
    # The text of a plan without steps.
    no_steps: str = "Nothing in this checkpoint can run."
    # A person can add inputs that the form has no field for.
    can_add_inputs: bool = True
    inputs_label: str = "Inputs"
    # The label of the only input of a new run; empty if a new run has no such input.
    prompt: str = ""
    # A sentence on what a new run does.
    new_run: str = ""
    # The group of events at which such a run commonly writes checkpoints.
    usual_events: str = ""
    # The usual choices of events, which a form offers before all others.
    event_presets: tuple[EventPreset, ...] = ()
    # The trigger of a checkpoint after which a succeeded run had nothing left to do.
    last_trigger: str = ""

    def may_have_effects(self, entry_point: str) -> bool:
        """Whether a run may import or call what its checkpoint names, besides the project's own code."""
        return self.always_has_effects or not (entry_point or self.needs_entry_point)


NO_KIND = RootKind("unknown", "unknown", "unit", "units", can_add_inputs=False)


# The entry points that the source of a project declares, and their inputs.


# The types of annotations that a form has fields for.
ANNOTATIONS: Mapping[str, type] = {one.__name__: one for one in (str, int, float, bool, list, dict)}
# The Python types of the types of a JSON schema.
JSON_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point of a project.

    ``name`` is ``module:Name`` or the file that declares it; ``kind`` is a root kind's name.
    """

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class EntryPointLabels:
    """English texts for a person who chooses entry points, to be translated.

    ``form`` shows how an entry point is written, and ``example`` is one.
    """

    hint: str
    form: str
    example: str


@dataclass(frozen=True, slots=True)
class InputName:
    """An input that an entry point's source uses. ``kind`` is the type of its annotation, or None.

    ``default`` is valid only if ``has_default`` is true.
    """

    name: str
    kind: type | None = None
    default: Any = None
    has_default: bool = False


# The program of an engine's jobs.


@dataclass(frozen=True, slots=True)
class Runner:
    """The program that runs in the project's interpreter.

    ``module`` has the functions of the engine's jobs, and is imported in advance by a prewarmed process.
    ``environment`` holds variables that are set for both processes.
    """

    program: Path
    module: str
    environment: Mapping[str, str] = field(default_factory=dict)


# The components that a preflight check finds, and an engine's labels for its report.


# The answer that a stored component is no longer in the project (see Options in runner_protocol.py).
GONE = "-"


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a run. ``fate`` is ``restored``, ``project`` (the project's code has it) or ``lost``.

    ``unit`` is the position of the unit that it belongs to; 0 if it belongs to none. ``loss_name`` is the
    name by which a person accepts its loss.
    """

    what: str
    name: str
    fate: str
    loss_name: str
    unit: int = 0
    agent: str = ""


@dataclass(frozen=True, slots=True)
class PreflightLabels:
    """English labels of what the runner reports, to be translated, by the names that it reports."""

    # One component of each kind.
    components: Mapping[str, str] = field(default_factory=dict)
    # Sentences with ``name``, of components that a run would lack.
    losses: Mapping[str, str] = field(default_factory=dict)
    # A component of a unit, with ``position`` and ``text``.
    of_unit: str = "%(position)d: %(text)s"
    # Sentences with ``position`` and ``title``, of stored components that a person has to match, and why.
    matches: Mapping[str, str] = field(default_factory=dict)
    match_reasons: Mapping[str, str] = field(default_factory=dict)
    # The kinds of matches whose choices are numbered.
    numbered_matches: frozenset[str] = frozenset()
    # Sentences with ``detail``.
    notes: Mapping[str, str] = field(default_factory=dict)


# Reads the source of a project's modules. Nothing is imported.


NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def files_of_module(folder: Path, module: str, *others: Path) -> Iterator[Path]:
    """Where a module of the project may be. What is not a module's name could lead out of the folder."""
    parts = module.split(".")
    if all(part.isidentifier() for part in parts):
        for root in (folder, folder / "src", *others):
            yield root.joinpath(*parts).with_suffix(".py")
            yield root.joinpath(*parts, "__init__.py")


def parsed_module(content: str | bytes) -> ast.Module | None:
    """The tree of a module; None if it is not valid Python, or too large to be parsed."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def last_name(node: ast.AST | None, aliases: Mapping[str, str] = NO_ALIASES) -> str:
    """The last part of the name of an expression, or of what it calls or subscripts; empty without a name.

    ``aliases`` has the original names of what the module imports under others.
    """
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def aliases_in(tree: ast.Module) -> dict[str, str]:
    """The original names of what a module imports under others."""
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}


def texts_in_node(node: ast.AST) -> Iterator[str]:
    """Every text in a part of a module."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def assigned_texts(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The texts that statements assign, by the names of their variables."""
    return {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
