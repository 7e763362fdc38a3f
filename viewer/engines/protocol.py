"""What an engine provides. Only ``viewer/engines/<name>`` and its runner know more of an engine."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

from viewer.engines.contents import Agent, Failure, Part, SearchText, Tab, UnitGraph
from viewer.engines.entry_points import (
    NO_KIND,
    Component,
    EntryPoint,
    EntryPointLabels,
    EventGroup,
    GroupTraits,
    InputName,
    PreflightLabels,
    RootKind,
    Runner,
)
from viewer.engines.plan import (
    Editable,
    EditRefused,
    Edits,
    MessageEdit,
    OpenQuestion,
    Outlook,
    Plan,
    Schema,
    Step,
    StoredValue,
    Unit,
)
from viewer.engines.recorded_calls import (
    RecordedCall,
    RecordedRun,
    RecordedTools,
    Reproduction,
    Sources,
    Span,
)
from viewer.messages.message import UserMessage
from viewer.stores.protocol import ModelCall, usage_by_model


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A file or folder that a program writes, by its English name.

    ``path`` begins with ``~/`` or an environment variable, or is the end of any path; ``*`` is any name.
    ``advice`` is the template that says why such a store is not read, and what to do; empty if it is read.
    """

    title: str
    path: str
    advice: str = ""

    def paths(self) -> Iterator[Path]:
        """The existing paths of this store for this account. None if only the end of its path is known."""
        with suppress(OSError, RuntimeError):
            pattern = Path(os.path.expandvars(self.path)).expanduser()
            if pattern.is_absolute():
                yield from Path("/").glob(str(pattern.relative_to("/")))

    def is_at(self, path: PurePath) -> bool:
        """Whether the end of a path is that of this store. False if its path begins at a known folder."""
        return self.path[0] not in "~$" and path.match(self.path)


# What an engine decodes from a stored copy.


class Contents(Protocol):
    """What a stored copy holds, as its engine decodes it. The engine's templates may read more of it."""

    @property
    def engine(self) -> str:
        """The name of the engine that wrote it."""

    @property
    def kind(self) -> str:
        """The name of the root entity's kind; ``unknown`` if the copy has no root entity."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def engine_version(self) -> str: ...
    @property
    def is_of_newer_version(self) -> bool:
        """Whether it was written by an engine that is newer than every known version."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def agents(self) -> Sequence[Agent]: ...
    @property
    def events(self) -> Sequence[Any]: ...
    @property
    def failure(self) -> Failure | None:
        """The last failure that the checkpoint records; None if it records none."""

    @property
    def checkpoint_events(self) -> Sequence[str]:
        """The events at which the run writes checkpoints; empty if that is not stored."""

    @property
    def unreadable(self) -> Mapping[str, Any]:
        """The parts that are stored but cannot be decoded, by name, with what is shown in their place."""

    @property
    def unknown(self) -> Sequence[str]:
        """The parts that no known version of the engine writes."""


C = TypeVar("C", bound=Contents)


# What an engine provides. Code outside ``viewer/engines/<name>`` and its runner uses only this interface.
#
# Nothing here assumes the shape of one engine: a step may have several units of work, a location may be a
# connection instead of a path, and a run may be an open-ended conversation.


class Engine(Protocol[C]):
    """One engine. Its functions read stored copies and source files; none imports or runs anything.

    A function with a body here is what an engine without the feature needs.
    """

    # Names and labels that do not depend on a checkpoint.

    # The name that a location records.
    name: str

    # The engine's name on pages.
    title: str

    # The kinds of root entities, by name.
    kinds: Mapping[str, RootKind]

    # The engine's own tabs of the checkpoint page.
    tabs: Sequence[Tab]

    # The names of all tabs in order: the engine's own, ``overview``, ``events`` and ``raw``.
    tab_order: Sequence[str]

    # The program that runs the engine's jobs.
    runner: Runner

    # The Python distribution whose version is shown for an interpreter.
    distribution: str

    # Where programs keep checkpoints of this engine by default.
    known_stores: Sequence[KnownStore] = ()

    # Reads the contents of checkpoints, and why they were written.

    def contents_of(self, body: Mapping[str, Any]) -> C:
        """The contents of a decoded stored copy. Raises nothing, whatever the copy holds."""

    def completed(self, contents: C) -> C:
        """The contents of a checkpoint at which its run completed. The checkpoint itself may not say so."""
        return contents

    def units_of(self, contents: C) -> list[Unit]:
        """The units of work, in the engine's order."""

    def calling_units(self, namespace: str) -> tuple[str, ...]:
        """The units that called the run of a namespace, the outermost first; empty if none did."""
        return ()

    def is_tab_empty(self, tab: str, contents: C) -> bool:
        """Whether a tab of ``tab_order`` has nothing to show, so that the page leaves it out."""
        return False

    def tab_context(self, tab: str, contents: C, before: C | None) -> dict[str, Any]:
        """The context of a tab's template. ``before`` is the checkpoint that the tab compares with."""

    def script(self, what: Reproduction) -> str:
        """A Python script that repeats this job with the engine's own interface."""

    def recorded_run(self, sources: Sources) -> RecordedRun | None:
        """What a test that repeats a run gives to it, and expects of it; None if no test can."""
        return None

    def model_calls(self, contents: C) -> Sequence[ModelCall]:
        """The model calls of the checkpoint and its ancestors; empty if they are stored with its copy."""
        return ()

    # Whether what units wrote is only in the checkpoints of their steps.
    compares_steps: bool

    def comparable(self, contents: C, steps: Sequence[C] = ()) -> Iterator[Part]:
        """The parts that a comparison aligns with those of another checkpoint.

        ``steps`` are the contents of the checkpoint's ancestors, oldest first, if ``compares_steps``.
        """

    def followed_parts(self, contents: C) -> Iterator[Part]:
        """The outputs and the values of the state, whose history along the ancestors a page shows.

        The same output or value has the same section and key in all checkpoints of a run.
        """

    def run_inputs(self, contents: C) -> Mapping[str, Any]:
        """The inputs by name that distinguish a run from others of its name, read from its first checkpoint.

        The name of a prompt is empty.
        """

    def edited_inputs(self, before: C, after: C, names: Collection[str]) -> Mapping[str, Any]:
        """The inputs by name that distinguish a published fork: the edited values of these names.

        ``before`` is the checkpoint that was forked. Empty if they are not there any more.
        """
        return {}

    def unit_graph(self, contents: C, source: Any = None) -> UnitGraph | None:
        """The graph of the units; None if no checkpoint records it. ``source`` is from ``read_source``."""
        return None

    def info(self, contents: C, first: C | None = None) -> dict[str, Any]:
        """The contents as plain values, for the terminal's JSON."""

    def info_lines(self, contents: C, first: C | None = None) -> Iterator[str]:
        """The contents as lines of the terminal."""

    def search_texts(self, contents: C) -> Iterator[SearchText]:
        """The texts that the search finds, the same ones for the same contents."""

    # Spans

    # Whether the newest checkpoint of a branch records the spans of the whole branch.
    has_all_spans_in_head: bool

    def spans(self, sources: Sources) -> list[Span]:
        """The spans of a branch. ``sources`` are its checkpoints; its head if ``has_all_spans_in_head``.

        Raises nothing, whatever the checkpoints hold.
        """

    def recorded_calls(self, contents: C) -> Iterator[RecordedCall]:
        """The model calls of a checkpoint and its ancestors, whose answers it holds, oldest first.

        Raises nothing, whatever the checkpoint holds.
        """
        return iter(())

    def recorded_tools(
        self, sources: Sources, steps: Sequence[Step], *, is_edited: bool = False
    ) -> RecordedTools:
        """The tool calls that these steps of a fork or resume would repeat, and the tools without a record.

        ``sources`` are the checkpoint and those that followed it, oldest first, with those of the runs that
        they called; only it and the newest one if ``has_all_spans_in_head``. ``is_edited`` if the run begins
        with another state. Raises nothing, whatever the checkpoints hold.
        """
        return RecordedTools()

    def tools_of_code(self, report: Mapping[str, Any], *, is_edited: bool) -> list[str]:
        """The tools that a run may call, as the report of a preflight check of its code names them.

        With ``is_edited``, an edited state may lead to any unit. Raises nothing, whatever the report holds.
        """
        return []

    # Triggers

    # English labels of triggers.
    trigger_labels: Mapping[str, str]

    # The suffixes of the triggers that are failures.
    failure_suffixes: Sequence[str]

    # The suffixes of the triggers after which a person has to answer.
    waiting_suffixes: Sequence[str]

    # The suffixes of the triggers of newest checkpoints after which something is left to run.
    unfinished_suffixes: Sequence[str]

    def is_start(self, trigger: str) -> bool:
        """Whether a checkpoint with this trigger was written when a unit or the run started."""

    def is_end(self, trigger: str) -> bool:
        """Whether a checkpoint with this trigger was written at the end of the whole run."""

    def numbered_label(self, kind: str, trigger: str) -> str:
        """A label with ``done``, ``next`` and ``total`` for a trigger of a unit; empty for other triggers."""
        return ""

    # Plans a fork, a resume or a new run from a checkpoint and the edits of a person.

    def schema(self, contents: C | None, report: Mapping[str, Any]) -> Schema:
        """What a run is made of, from the report of a preflight check or else from a checkpoint.

        An empty ``report`` means that no preflight check was made (see viewer/engines/runner_protocol.py).
        """

    def editable(self, contents: C) -> Editable:
        """What a person may change. Each value has the type that it has in the checkpoint."""

    def edited_messages(self, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool) -> Any:
        """What a fork writes to an entry with messages: all messages, or only the changed ones if ``by_id``.

        ``by_id`` is for a reducer that replaces and removes messages by their ids. Raises EditRefused.
        """
        return stored

    def typed_state(self, contents: C, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The edited values of entries of the state, as a runner reads them. Raises EditRefused.

        Objects get the classes of those that they replace.
        """
        return state

    # The type of what ``read_source`` returns, of plain values.
    source_type: Any = type(None)

    def read_source(self, folder: Path, entry_point: str, kind: str) -> Any:
        """What the source of an entry point shows about later steps; None if it shows nothing."""
        return None

    def plan(self, contents: C, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
        """The steps of a fork or resume with these edits; ``source`` is from ``read_source``.

        Raises EditRefused.
        """

    def outlook(self, contents: C, source: Any = None) -> Outlook:
        """What the plan leaves open."""

    def whole_plan(
        self,
        contents: C,
        edits: Edits,
        furthest: C | None = None,
        source: Any = None,
        *,
        is_fork: bool = True,
        again_stale: bool = False,
    ) -> Plan:
        """The steps of a fork or resume, what they leave open, and what the previous run used.

        The usage is estimated from ``furthest``, the run's furthest checkpoint. With ``again_stale``, all
        stale steps run again.
        """
        refused = None
        try:
            steps = self.plan(contents, edits, source, is_fork=is_fork)
        except EditRefused as error:
            refused = error.message
            without = Edits(edits.inputs, again=edits.again, keep=edits.keep - edits.again)
            try:
                steps = self.plan(contents, without)
            except EditRefused:
                steps = []
        if again_stale and (stale := {step.unit for step in steps if step.stale}):
            again = edits.again | stale
            edits = replace(edits, again=again, keep=edits.keep - again)
            return self.whole_plan(contents, edits, furthest, source, is_fork=is_fork)
        calls = self.previous_calls(contents, furthest, steps)
        missing, outlook = self.missing_prompt(contents, edits), self.outlook(contents, source)
        return Plan(edits, steps, outlook, refused, missing, usage_by_model(calls))

    def has_finished(self, contents: C, source: Any) -> bool:
        """Whether nothing follows a checkpoint of an open-ended run; ``source`` is from ``read_source``.

        False if the source does not show that.
        """
        return False

    def missing_prompt(self, contents: C, edits: Edits) -> UserMessage | None:
        """Why the fork needs a prompt from a person before it can run; None if it needs none."""
        return None

    def previous_calls(self, contents: C, latest: C | None, steps: Sequence[Step]) -> list[ModelCall]:
        """The model calls of these steps, as recorded in ``latest``.

        ``latest`` is the run's furthest checkpoint, if there is one.
        """
        return []

    def values_read(self, contents: C, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
        """The values that a run reads from the checkpoint and that no edit replaces."""
        return iter(())

    def missing_code(self, contents: C) -> UserMessage | None:
        """What a run without the project's code would lack; None if it would lack nothing."""
        return None

    def former_values(self, contents: C, edits: Edits) -> UserMessage | None:
        """What would use an edited input's former value without the project's code; None if nothing would."""
        return None

    def kickoff_inputs(self, contents: C, kind: str) -> Mapping[str, Any]:
        """What a run was started with, from its first checkpoint."""

    # Finds entry points by reading source. Nothing of the project is imported.

    def environment_file(self, folder: Path) -> Path | None:
        """The environment file that the project's configuration names, or None. The file may not exist."""
        return None

    def source_folders(self, folder: Path) -> tuple[Path, ...]:
        """The folders that the project's configuration adds to the import path, after the project's own."""
        return ()

    def find_entry_points(self, folder: Path) -> tuple[EntryPoint, ...]:
        """The entry points of a project's source."""

    def named_entry_points(self, folder: Path) -> Mapping[str, str]:
        """The entry points to which the project's configuration gives names, by these names."""
        return {}

    def entry_point_for(self, folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
        """The entry point that a run of this kind and name belongs to; empty if that is unclear."""

    def entry_point_kinds(self, folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
        """The name of each entry point's root kind; empty if the source does not show it."""

    def entry_point_title(self, entry_point: str) -> str:
        """A short name of an entry point."""

    # Texts for a person who chooses entry points.
    entry_point_labels: EntryPointLabels

    def is_entry_point(self, text: str) -> bool:
        """Whether a text can name an entry point."""

    def saver_of(self, folder: Path, named: str) -> str:
        """The ``module:name`` of a project's checkpoint saver: the named one, or that of its configuration.

        Empty if there is none, or if the engine has no savers.
        """
        return ""

    def input_names(self, folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
        """The inputs that an entry point's source names."""

    def checkpoint_events(self, interpreter: Path | None) -> tuple[EventGroup, ...]:
        """The events at which the engine in this interpreter's environment can write a checkpoint."""
        return ()

    # The template of the lines that make a program write checkpoints to a ``path``.
    snippet_template: str

    # Traits of the groups of ``checkpoint_events``, by name.
    event_groups: Mapping[str, GroupTraits] = {}

    # The events, questions and preflight reports of jobs.

    # What the runner's events call a unit: ``<subject>_started``, ``_completed`` and ``_failed``. The events'
    # data hold the unit's id under the subject.
    unit_subjects: Sequence[str]

    # English labels of the runner's own events, filled with their data.
    event_labels: Mapping[str, str]

    # The field of an event's data that is shown folded below its row, by the kind of the event.
    event_details: Mapping[str, str]

    # English labels, with ``value``, of who asks a person, by the field of the question's context.
    asker_labels: Mapping[str, str]

    def asked_question(self, prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
        """The question that a run asks, with the answers that it suggests; None if it suggests none."""
        return None

    # Preflight checks

    # Labels of what the runner reports.
    preflight_labels: PreflightLabels

    def components_in(self, report: Mapping[str, Any]) -> list[Component]:
        """The components that a preflight report lists."""
        return []

    def unmatched(self, report: Mapping[str, Any], answers: Mapping[str, str]) -> list[Component]:
        """The project's components that do not run, because no stored component is matched with them.

        ``answers`` are by the id of the stored component.
        """
        return []


def kind_of(engine: Engine[Any], name: str) -> RootKind:
    """The engine's root kind of this name; ``NO_KIND`` if it has none."""
    return engine.kinds.get(name, NO_KIND)
