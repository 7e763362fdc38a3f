"""Reading the checkpoints of an engine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from viewer.engines.comparable import Part
from viewer.engines.contents import UnitGraph
from viewer.engines.planning.plan import Unit
from viewer.engines.protocol.contents import C
from viewer.engines.reproduction import Reproduction
from viewer.engines.search_texts import SearchText
from viewer.engines.spans import Sources, Span
from viewer.stores.model_calls import ModelCall


class CheckpointReader(Protocol[C]):
    """Reads the contents of checkpoints, and why they were written."""

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

    def model_calls(self, contents: C) -> Sequence[ModelCall]:
        """The model calls of the checkpoint and its ancestors; empty if they are stored with its copy."""
        return ()

    @property
    def compares_steps(self) -> bool:
        """Whether what units wrote is only in the checkpoints of their steps."""

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

    @property
    def has_all_spans_in_head(self) -> bool:
        """Whether the newest checkpoint of a branch records the spans of the whole branch."""

    def spans(self, sources: Sources) -> list[Span]:
        """The spans of a branch. ``sources`` are its checkpoints; its head if ``has_all_spans_in_head``.

        Raises nothing, whatever the checkpoints hold.
        """

    # Triggers

    @property
    def trigger_labels(self) -> Mapping[str, str]:
        """English labels of triggers."""

    @property
    def failure_suffixes(self) -> Sequence[str]:
        """The suffixes of the triggers that are failures."""

    @property
    def waiting_suffixes(self) -> Sequence[str]:
        """The suffixes of the triggers after which a person has to answer."""

    @property
    def unfinished_suffixes(self) -> Sequence[str]:
        """The suffixes of the triggers of newest checkpoints after which something is left to run."""

    def is_start(self, trigger: str) -> bool:
        """Whether a checkpoint with this trigger was written when a unit or the run started."""

    def is_end(self, trigger: str) -> bool:
        """Whether a checkpoint with this trigger was written at the end of the whole run."""

    def numbered_label(self, kind: str, trigger: str) -> str:
        """A label with ``done``, ``next`` and ``total`` for a trigger of a unit; empty for other triggers."""
        return ""
