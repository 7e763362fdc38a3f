"""The recorded results of a flow's finished methods, converted to the types that the code annotates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai.flow.flow import Flow
from crewai.flow.human_feedback import HumanFeedbackResult
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from forkline_crewai import flow_types

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

UNTYPED = "crewai.result_class_unknown"


def results_of(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return each method's results as JSON values, one for each time that it finished.

    Newer engines save every output with its method's name, older ones only the outputs.
    """
    outputs = [entry for entry in saved.get("checkpoint_method_outputs") or [] if isinstance(entry, dict)]
    named = [entry for entry in outputs if entry.keys() >= {"method", "output"}]
    results: dict[str, list[Any]] = {}
    for entry in named:
        results.setdefault(str(entry["method"]), []).append(_passed_on(entry))
    if named:
        return results
    starts = [event for event in events if event.get("type") == "flow_started"]
    flow = next((event.get("flow_name") for event in starts if not event.get("parent_event_id")), None)
    for event in events:
        if event.get("type") == "method_execution_finished" and flow in (None, event.get("flow_name")):
            results.setdefault(str(event.get("method_name")), []).append(event.get("result"))
    return results


def _passed_on(entry: Mapping[str, Any]) -> Any:
    """Return a saved output, or the outcome if a person chose one."""
    feedback = entry.get("human_feedback")
    outcome = feedback.get("outcome") if isinstance(feedback, dict) else None
    return entry["output"] if outcome is None else outcome


def restore_feedback(flow: Any, saved: Mapping[str, Any]) -> None:
    """Set the flow's last human feedback, which is passed to the listeners of its outcomes."""
    feedback = saved.get("last_human_feedback")
    if not isinstance(feedback, dict):
        return
    try:
        flow.last_human_feedback = TypeAdapter(HumanFeedbackResult).validate_python(feedback)
    except ValidationError:
        # Saved by a version with other fields: listeners get only the outcome.
        return


def typed(flow: Any, results: Mapping[str, list[Any]], reporter: Reporter) -> dict[str, list[Any]]:
    """Return the results converted to the annotated types, or as JSON values where none is annotated.

    A checkpoint contains a model's values but not its class, which a listener may need.
    """
    for method in untyped(flow, results):
        reporter.warn(UNTYPED, method=method)
    return {name: _typed(flow, name, values, reporter) for name, values in results.items()}


def _typed(flow: Any, name: str, values: list[Any], reporter: Reporter) -> list[Any]:
    annotated = flow_types.type_of(flow, name)
    if annotated is None or not any(isinstance(value, dict | list) for value in values):
        return values
    try:
        adapter = TypeAdapter(annotated)
        return [
            adapter.validate_json(json.dumps(value)) if isinstance(value, dict | list) else value
            for value in values
        ]
    except (ValidationError, PydanticUserError, PydanticSchemaGenerationError):
        reporter.warn("crewai.result_does_not_fit", method=name, type=repr(annotated))
        return values


def untyped(flow: Any, results: Mapping[str, list[Any]]) -> list[str]:
    """Return the methods that may have returned an object whose class no annotation names.

    A checkpoint has a dictionary for an object, and also for a dictionary.
    """
    if type(flow) is Flow:
        return []  # declared in a file: its expressions read plain values
    methods = {str(method) for method in flow._methods}
    return [
        name
        for name, values in results.items()
        if name in methods
        and any(isinstance(value, dict) for value in values)
        and flow_types.type_of(flow, name) is None
        and flow_types.may_be_object(flow, name)
    ]
