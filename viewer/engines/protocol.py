"""What an engine provides. Everything outside ``viewer/engines/<name>`` and its runner goes through this.

Nothing here assumes the shape of one engine: a step may have several units of work, a location may be a
connection instead of a path, and a run may be an open-ended conversation.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from viewer.engines.checkpoint_events import EventGroup, GroupTraits
from viewer.engines.comparable import Part
from viewer.engines.contents import Agent, Failure, Tab
from viewer.engines.editable import Editable, MessageEdit, OpenQuestion, StoredValue
from viewer.engines.entry_points import EntryPoint, EntryPointLabels, InputName
from viewer.engines.outlook import Outlook
from viewer.engines.plan import Edits, Step, Unit
from viewer.engines.preflight import Component, PreflightLabels
from viewer.engines.reproduction import Reproduction
from viewer.engines.root_kinds import NO_KIND, RootKind
from viewer.engines.runner import Runner
from viewer.engines.schema import Schema
from viewer.engines.search_texts import SearchText
from viewer.engines.spans import Sources, Span
from viewer.messages.message import UserMessage
from viewer.stores.model_calls import ModelCall


class Contents(Protocol):
    """What a stored copy holds, as its engine decodes it. The engine's templates may read more of it."""

    @property
    def engine(self) -> str:
        """The name of its engine."""

    @property
    def kind(self) -> str:
        """The name of its root entity's kind; ``unknown`` if it has none."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def engine_version(self) -> str: ...
    @property
    def is_of_newer_version(self) -> bool:
        """Whether a newer version of the engine wrote it than all known ones."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def agents(self) -> Sequence[Agent]: ...
    @property
    def events(self) -> Sequence[Any]: ...
    @property
    def failure(self) -> Failure | None:
        """The last failure that it records, if any."""

    @property
    def checkpoint_events(self) -> Sequence[str]:
        """The events at which it writes checkpoints; none if that is not stored."""

    @property
    def unknown(self) -> Sequence[str]:
        """The parts that no known version of the engine writes."""


C = TypeVar("C", bound=Contents)


class Engine(Protocol[C]):
    """One engine. Its functions read stored copies and source files; none imports or runs anything."""

    @property
    def name(self) -> str:
        """What a location records."""

    @property
    def title(self) -> str:
        """Its name on pages."""

    @property
    def kinds(self) -> Mapping[str, RootKind]:
        """The kinds of root entities, by name."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """The engine's own tabs of the checkpoint page."""

    @property
    def tab_order(self) -> Sequence[str]:
        """The names of all tabs in their order: its own, ``overview``, ``events`` and ``raw``."""

    @property
    def runner(self) -> Runner:
        """The program that runs its jobs."""

    @property
    def distribution(self) -> str:
        """The Python distribution whose version is shown for an interpreter."""

    @property
    def event_groups(self) -> Mapping[str, GroupTraits]:
        """Traits of the groups of ``checkpoint_events``, by name."""

    @property
    def unit_subjects(self) -> Sequence[str]:
        """What the runner's events call a unit: ``<subject>_started``, ``_completed`` and ``_failed``.

        The events' data hold the unit's id under the subject.
        """

    @property
    def event_labels(self) -> Mapping[str, str]:
        """English labels of the runner's own events, filled with their data."""

    @property
    def event_details(self) -> Mapping[str, str]:
        """The part of an event's data that is folded under its row."""

    @property
    def asker_labels(self) -> Mapping[str, str]:
        """English labels, with ``value``, of what asks a person, by the field of the question's context."""

    def asked_question(self, prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
        """What a run asks, with the answers that the engine's question suggests; None if it suggests none."""

    # What a preflight check finds

    @property
    def preflight_labels(self) -> PreflightLabels:
        """Labels of what the runner reports."""

    def components_in(self, report: Mapping[str, Any]) -> list[Component]:
        """The components that a preflight report lists."""

    def unmatched(self, report: Mapping[str, Any], answers: Mapping[str, str]) -> list[Component]:
        """The project's components that no stored one is matched with, so that they do not run.

        ``answers`` are by the id of the stored component.
        """

    # A checkpoint's contents

    def contents_of(self, body: Mapping[str, Any]) -> C:
        """The contents of a decoded stored copy. Raises nothing, whatever the copy holds."""

    def units_of(self, contents: C) -> list[Unit]:
        """The units of work, in the engine's order."""

    def calling_units(self, namespace: str) -> tuple[str, ...]:
        """The units that called the run of a namespace, the outermost first; none for a separate run."""

    def tab_context(self, tab: str, contents: C, before: C | None) -> dict[str, Any]:
        """What a tab's template is given. ``before`` is the checkpoint that the tab compares with."""

    def script(self, what: Reproduction) -> str:
        """A Python script that does this again with the engine's own interface."""

    def model_calls(self, contents: C) -> Sequence[ModelCall]:
        """The model calls of the checkpoint and its ancestors; none if they are stored with its copy."""

    @property
    def compares_steps(self) -> bool:
        """Whether what units wrote is only in the checkpoints of their steps."""

    def comparable(self, contents: C, steps: Sequence[C] = ()) -> Iterator[Part]:
        """What a comparison shows, aligned with the parts of another checkpoint.

        ``steps`` are the contents of its ancestors, oldest first, if ``compares_steps``.
        """

    def run_inputs(self, contents: C) -> Mapping[str, Any]:
        """What distinguishes the run of its first checkpoint from others of its name: inputs by name.

        A prompt has an empty name.
        """

    def info(self, contents: C) -> dict[str, Any]:
        """The contents as plain values, for the terminal's JSON."""

    def info_lines(self, contents: C) -> Iterator[str]:
        """The contents as lines of the terminal."""

    def search_texts(self, contents: C) -> Iterator[SearchText]:
        """The texts that the search finds, the same ones for the same contents."""

    # Where its time went

    @property
    def has_all_spans_in_head(self) -> bool:
        """Whether the newest checkpoint of a branch records the spans of the whole branch."""

    def spans(self, sources: Sources) -> list[Span]:
        """The spans that these checkpoints of a branch record, or that its newest one alone does.

        Raises nothing, whatever they hold.
        """

    # What made it write a checkpoint

    @property
    def trigger_labels(self) -> Mapping[str, str]:
        """English labels of triggers."""

    @property
    def failure_suffixes(self) -> Sequence[str]:
        """How the triggers that are failures end."""

    @property
    def waiting_suffixes(self) -> Sequence[str]:
        """How the triggers end after which a person has to answer."""

    def is_start(self, trigger: str) -> bool:
        """Whether a checkpoint was written as something started."""

    def is_end(self, trigger: str) -> bool:
        """Whether a checkpoint was written at the end of the whole run."""

    def numbered_label(self, kind: str, trigger: str) -> str:
        """A label with ``done``, ``next`` and ``total`` for a trigger about one unit, or empty."""

    # Edits and the plan

    def schema(self, contents: C | None, report: Mapping[str, Any]) -> Schema:
        """What a run is made of, from the report of a preflight check, else from a checkpoint.

        The report is empty if there is none (see viewer/jobs/preflight/checks.py).
        """

    def editable(self, contents: C) -> Editable:
        """What a person may change. Each value has the type that it has in the checkpoint."""

    def edited_messages(self, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool) -> Any:
        """What is written to an entry with messages: all of them, or only what changes if ``by_id``.

        ``by_id`` is for a reducer that replaces and removes messages by their ids. Raises EditRefused.
        """

    def read_source(self, folder: Path, entry_point: str, kind: str) -> Any:
        """What the source of an entry point says about the steps that follow; None if it says nothing."""

    def plan(self, contents: C, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
        """The steps of a fork or resume with these edits; ``source`` is from ``read_source``.

        Raises EditRefused.
        """

    def outlook(self, contents: C, source: Any = None) -> Outlook:
        """What the plan leaves open."""

    def missing_prompt(self, contents: C, edits: Edits) -> UserMessage | None:
        """Why it cannot run before a person types a prompt; None if it can."""

    def cost(self, contents: C, latest: C | None, steps: Sequence[Step]) -> tuple[int, int]:
        """The model calls and tokens that these steps used before. ``latest`` is the run's furthest."""

    def values_read(self, contents: C, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
        """The values that a run reads from the checkpoint and no edit replaces."""

    def missing_code(self, contents: C) -> UserMessage | None:
        """What a run without the project's code would lack; None if nothing is."""

    def former_values(self, contents: C, edits: Edits) -> UserMessage | None:
        """Who keeps an input's former value without the project's code; None if nobody does."""

    def kickoff_inputs(self, contents: C, kind: str) -> Mapping[str, Any]:
        """What a run was started with, from its first checkpoint."""

    # Projects

    def environment_file(self, folder: Path) -> Path | None:
        """The environment file that the project's own configuration names, if any. It may be missing."""

    def source_folders(self, folder: Path) -> tuple[Path, ...]:
        """The folders that the project's configuration adds to the import path, after its own."""

    def find_entry_points(self, folder: Path) -> tuple[EntryPoint, ...]:
        """The entry points of a project's source."""

    def entry_point_for(self, folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
        """The entry point that a run of this kind and name belongs to; empty if unclear."""

    def entry_point_kinds(self, folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
        """The root kind of each entry point; empty if its source does not say."""

    def entry_point_title(self, entry_point: str) -> str:
        """A short name of an entry point."""

    @property
    def entry_point_labels(self) -> EntryPointLabels:
        """What the page of a project says about entry points."""

    def is_entry_point(self, text: str) -> bool:
        """Whether a text can name an entry point."""

    def input_names(self, folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
        """The inputs that an entry point's source names."""

    def checkpoint_events(self, interpreter: Path | None) -> tuple[EventGroup, ...]:
        """The events at which the engine in this interpreter's environment can write a checkpoint."""


def kind_of(engine: Engine[Any], name: str) -> RootKind:
    """The engine's root kind of this name; for an unknown name, one that can do nothing."""
    return engine.kinds.get(name, NO_KIND)
