"""What the runner of an engine reports."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from viewer.engines.planning.editable import OpenQuestion
from viewer.engines.preflight import Component, PreflightLabels


class RunnerReports(Protocol):
    """The events, questions and preflight reports of jobs."""

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
        """The field of an event's data that is shown folded below its row, by the kind of the event."""

    @property
    def asker_labels(self) -> Mapping[str, str]:
        """English labels, with ``value``, of who asks a person, by the field of the question's context."""

    def asked_question(self, prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
        """The question that a run asks, with the answers that it suggests; None if it suggests none."""
        return None

    # Preflight checks

    @property
    def preflight_labels(self) -> PreflightLabels:
        """Labels of what the runner reports."""

    def components_in(self, report: Mapping[str, Any]) -> list[Component]:
        """The components that a preflight report lists."""
        return []

    def unmatched(self, report: Mapping[str, Any], answers: Mapping[str, str]) -> list[Component]:
        """The project's components that do not run, because no stored component is matched with them.

        ``answers`` are by the id of the stored component.
        """
        return []
