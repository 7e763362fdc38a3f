"""Route a flow by an outcome that a person chose, without asking a model what the answer means.

Patches: crewai.flow.flow.Flow._collapse_to_outcome
Versions: 1.14.2 and newer
Why: The engine asks a model to map every answer to an outcome, which costs a call, and may map a chosen
    outcome to another one.
Test: tests/runners/human_input/test_questions.py::test_a_provider_that_would_pause_the_flow_is_answered
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewai.flow.flow import Flow


def apply() -> None:
    """Return the outcome that the first line of an answer names; ask the model only if it names none."""
    engine: Any = Flow
    collapse: Callable[..., str] = engine._collapse_to_outcome

    def chosen(self: Any, feedback: str, outcomes: Any, llm: Any) -> str:
        first = feedback.strip().partition("\n")[0].strip().lower()
        exact = [one for one in outcomes if str(one).lower() == first]
        return str(exact[0]) if exact else collapse(self, feedback=feedback, outcomes=outcomes, llm=llm)

    engine._collapse_to_outcome = chosen
