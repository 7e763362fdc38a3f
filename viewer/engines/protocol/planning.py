"""What can be edited before a run, and what the run then does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from viewer.engines.planning.editable import Editable, MessageEdit, StoredValue
from viewer.engines.planning.outlook import Outlook
from viewer.engines.planning.plan import Edits, Step
from viewer.engines.planning.schema import Schema
from viewer.engines.protocol.contents import C_contra
from viewer.messages.message import UserMessage


class RunPlanner(Protocol[C_contra]):
    """Plans a fork, a resume or a new run from a checkpoint and the edits of a person."""

    def schema(self, contents: C_contra | None, report: Mapping[str, Any]) -> Schema:
        """What a run is made of, from the report of a preflight check or else from a checkpoint.

        An empty ``report`` means that no preflight check was made (see viewer/jobs/preflight/checks.py).
        """

    def editable(self, contents: C_contra) -> Editable:
        """What a person may change. Each value has the type that it has in the checkpoint."""

    def edited_messages(self, stored: Any, edits: Sequence[MessageEdit], *, by_id: bool) -> Any:
        """What a fork writes to an entry with messages: all messages, or only the changed ones if ``by_id``.

        ``by_id`` is for a reducer that replaces and removes messages by their ids. Raises EditRefused.
        """
        return stored

    def typed_state(self, contents: C_contra, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The edited values of entries of the state, as a runner reads them. Raises EditRefused.

        Objects get the classes of those that they replace.
        """
        return state

    def read_source(self, folder: Path, entry_point: str, kind: str) -> Any:
        """What the source of an entry point shows about later steps; None if it shows nothing."""
        return None

    def plan(
        self, contents: C_contra, edits: Edits, source: Any = None, *, is_fork: bool = True
    ) -> list[Step]:
        """The steps of a fork or resume with these edits; ``source`` is from ``read_source``.

        Raises EditRefused.
        """

    def outlook(self, contents: C_contra, source: Any = None) -> Outlook:
        """What the plan leaves open."""

    def has_finished(self, contents: C_contra, source: Any) -> bool:
        """Whether nothing follows a checkpoint of an open-ended run; ``source`` is from ``read_source``.

        False if the source does not show that.
        """
        return False

    def missing_prompt(self, contents: C_contra, edits: Edits) -> UserMessage | None:
        """Why the fork needs a prompt from a person before it can run; None if it needs none."""
        return None

    def cost(self, contents: C_contra, latest: C_contra | None, steps: Sequence[Step]) -> tuple[int, int]:
        """How many model calls and tokens these steps used, as recorded in ``latest``.

        ``latest`` is the run's furthest checkpoint, if there is one.
        """
        return 0, 0

    def values_read(self, contents: C_contra, edits: Edits, steps: Sequence[Step]) -> Iterator[StoredValue]:
        """The values that a run reads from the checkpoint and that no edit replaces."""
        return iter(())

    def missing_code(self, contents: C_contra) -> UserMessage | None:
        """What a run without the project's code would lack; None if it would lack nothing."""
        return None

    def former_values(self, contents: C_contra, edits: Edits) -> UserMessage | None:
        """What would use an edited input's former value without the project's code; None if nothing would."""
        return None

    def kickoff_inputs(self, contents: C_contra, kind: str) -> Mapping[str, Any]:
        """What a run was started with, from its first checkpoint."""
