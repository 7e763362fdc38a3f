"""Resumes, forks or checks a flow with the project's methods, whose recorded results get annotated types."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai.flow import human_feedback
from crewai.flow.flow import Flow
from crewai.flow.human_feedback import HumanFeedbackResult
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.tasks.task_output import TaskOutput
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from forkline_crewai import checkpoints, components, entry_points, models, restoring
from forkline_crewai.effects import dicts_in
from forkline_crewai.entry_points import may_be_object, type_of
from forkline_crewai.patches import tasks
from forkline_crewai.patches.questions import feedback_config, feedback_for
from forkline_runner.reporting import Refused, as_json

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    from forkline_runner.findings import Report
    from forkline_runner.reporting import Questions, Reporter
    from viewer.engines.runner_protocol import Request


UNTYPED = "crewai.result_class_unknown"


def results_of(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return each method's results as JSON values, one for each time that it finished.

    Newer engines save every output with its method's name, older ones only the outputs.
    """
    outputs = dicts_in(saved.get("checkpoint_method_outputs"))
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
    annotated = type_of(flow, name)
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
        and type_of(flow, name) is None
        and may_be_object(flow, name)
    ]


# Resumes or forks a flow with the project's methods.


def prepare(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """Return the flow, on its branch and ready to be kicked off. Raises Refused.

    ``saved`` is its edited data. A checkpoint contains no methods, so they come from the project: the
    engine's base class would run nothing and return the old output.
    """
    flow = made_by(request["entry_point"])
    found = [*components.of_project_flow(flow, saved), *models.missing_models(flow)]
    components.report_and_refuse(found, request, reporter)
    restore_state(flow, saved)
    restore_feedback(flow, saved)
    flow.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), flow.checkpoint)
    _continue_crews(body, request, reporter)
    restoring.attach(state, flow)
    if request["kind"] == "fork":
        _give_state_new_id(flow)
    restoring.write_first(state, request, edited=request["state"] is not None)
    restoring.continue_numbering(restoring.events_in(body), "flow_started")
    return flow


def add_components(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    """Add the components of a flow to a preflight report, and restore it from a copy.

    ``saved`` is its data; both it and ``body`` are empty for a new run. Nothing runs. Raises Refused.
    """
    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    flow = made_by(request["entry_point"])
    report["components"] = [*components.of_project_flow(flow, saved), *models.missing_models(flow)]
    if saved:
        results = results_of(saved, restoring.events_in(body))
        report["notes"] += [{"what": "untyped", "detail": name} for name in untyped(flow, results)]
        checkpoints.edit_state(saved, request)
        restore_state(flow, saved)
        restoring.restored(body, [], request, scratch)


def made_by(entry_point: str) -> Any:
    """Return the project's flow, not started, from its class, function or file. Raises Refused."""
    return entry_points.made_by(entry_point, Flow, "flow")


def restore_state(flow: Any, saved: Mapping[str, Any]) -> None:
    """Restore the flow's state and finished methods. Raises Refused if the state does not fit."""
    for name in ("completed_methods", "method_outputs", "method_counts", "state"):
        value = saved.get(f"checkpoint_{name}")
        setattr(flow, f"checkpoint_{name}", set(value) if name == "completed_methods" and value else value)
    try:
        flow._restore_from_checkpoint()
    except ValidationError as error:
        raise Refused("crewai.flow_state_does_not_fit", error=restoring.reasons_of(error)) from error


def _give_state_new_id(flow: Any) -> None:
    """Give the fork's state a new id, as the engine's own fork does."""
    identifier = str(uuid.uuid4())
    if isinstance(flow._state, dict):
        flow._state["id"] = identifier
    else:
        object.__setattr__(flow._state, "id", identifier)


def replay_finished(flow: Any, saved: Mapping[str, Any], body: Mapping[str, Any], reporter: Reporter) -> None:
    """Make the finished methods return their recorded results instead of running again."""
    results = results_of(saved, restoring.events_in(body))
    tasks.replay_methods(tasks.Replay(flow, typed(flow, results, reporter)))


def continue_pending(
    flow: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, questions: Questions
) -> None:
    """If this flow waits for feedback, make the waiting method return its earlier output, without running.

    A checkpoint does not contain that output; the flow's persistence does, under the id of the flow's state.
    If the state was edited, the method runs again: its output was computed from another state.
    """
    identifier = str((saved.get("checkpoint_state") or {}).get("id") or "")
    store = _store_of(flow) if identifier and request["state"] is None else None
    loaded = store.load_pending_feedback(identifier) if store is not None else None
    if store is None or loaded is None:
        return
    values, context = loaded
    method = str(context.method_name)
    if feedback_config(flow, method) is None:
        return
    if method in {str(name) for name in flow._completed_methods}:
        if not _is_paused(method, restoring.events_in(body)):
            return
        flow._completed_methods.discard(method)

    def resume() -> Callable[..., Any]:
        _set_state(flow, values)
        return _method_that_asks(flow, context, questions)

    def done() -> None:
        # A fork leaves the original's pending feedback in the store.
        if request["kind"] == "resume":
            store.clear_pending_feedback(identifier)

    tasks.reuse_pending_output(flow, method, resume, done)


def _store_of(flow: Any) -> Any:
    """Return the flow's persistence, else the engine's default one if its file exists, else None."""
    if flow.persistence is not None:
        return flow.persistence
    if not any(feedback_config(flow, str(method)) for method in flow._methods):
        return None
    path: Any = SQLiteFlowPersistence.model_fields["db_path"].get_default(call_default_factory=True)
    return SQLiteFlowPersistence() if Path(path).exists() else None


def _is_paused(method: str, events: list[dict[str, Any]]) -> bool:
    """Return whether the last recorded event of the method is that it paused."""
    kinds = [
        event.get("type")
        for event in events
        if event.get("method_name") == method
        and event.get("type") in {"method_execution_paused", "method_execution_finished"}
    ]
    return kinds[-1:] == ["method_execution_paused"]


def _method_that_asks(flow: Any, context: PendingFeedbackContext, questions: Questions) -> Callable[..., Any]:
    """Return a method that returns the paused method's output, and asks a person for feedback on it.

    The provider that paused the flow is not called again.
    """

    class Provider:
        def request_feedback(self, context: PendingFeedbackContext, flow: Any) -> str:
            return feedback_for(questions, context, flow)

    def returned(*_: Any, **__: Any) -> Any:
        return context.method_output

    method = str(context.method_name)
    returned.__name__ = method
    config = feedback_config(flow, method)
    if hasattr(flow, "_resolve_feedback_provider"):
        tasks.resolve_provider_once(flow, config, Provider())
        return returned
    # This version wraps the method itself: do the same here.
    names = set(inspect.signature(human_feedback).parameters) - {"provider"}
    options = {name: getattr(config, name) for name in names if hasattr(config, name)}
    ask: Any = human_feedback(**options, provider=Provider())(returned)

    def ask_and_save(*rest: Any, **named: Any) -> Any:
        result = ask(flow, *rest, **named)
        if flow.persistence is not None:
            flow.persistence.save_state(flow_uuid=flow.flow_id, method_name=method, state_data=flow._state)
        return result

    return ask_and_save


def _set_state(flow: Any, values: Mapping[str, Any]) -> None:
    """Set the state to what it was when the flow paused, except for its id."""
    state = flow._state
    if isinstance(state, dict):
        state.update({name: value for name, value in values.items() if name != "id"})
        return
    paused = type(state).model_validate(dict(values))
    for name in type(state).model_fields:
        if name != "id":
            object.__setattr__(state, name, getattr(paused, name))


def run(flow: Any, inputs: Mapping[str, Any] | None = None) -> str:
    """Kick off the flow, with inputs if it is a new run. Return its last method's result as text."""
    return as_text(flow.kickoff(inputs=dict(inputs)) if inputs else flow.kickoff())


def as_text(result: Any) -> str:
    """Return what the last method of a flow returned, as text."""
    if isinstance(result, BaseModel):
        # It may hold what JSON cannot.
        with suppress(Exception):
            return str(result.model_dump_json())
    return result if isinstance(result, str) else as_json(result)


def steps_of(flow: Any, request: Request) -> list[dict[str, Any]]:
    """Return the methods with their planned actions; without one, ``kept`` if finished, else ``runs``."""
    finished = {str(name) for name in flow._completed_methods}
    planned = {step["task"]: step["action"] for step in request["steps"]}
    names = [str(name) for name in flow._methods]
    if set(planned.values()) - {"kept"}:
        # The plan lists the methods that follow: it does not contain routes that were not taken.
        names = [name for name in names if name in planned]
    return [
        {
            "unit": name,
            "position": position,
            "title": name,
            "action": planned.get(name) or ("kept" if name in finished else "runs"),
        }
        for position, name in enumerate(names, 1)
    ]


def _continue_crews(body: Mapping[str, Any], request: Request, reporter: Reporter) -> None:
    """Give each unfinished crew its finished tasks' outputs when the flow kicks off an equal crew again.

    Such a crew was running when the checkpoint was written. Crews are equal if they have the same name, tasks
    and inputs. If the state was edited, nothing is kept: the crew may depend on the edited values.
    """
    events = restoring.events_in(body)
    unfinished = [entity for entity in body["entities"] if _is_unfinished(entity, events)]
    if not unfinished:
        return
    if request["state"] is not None:
        reporter.warn("crewai.inner_crew_restarts")
        return
    tasks.call_before_kickoffs(lambda crew, inputs: _restore_outputs(crew, inputs, unfinished, reporter))


def _is_unfinished(entity: Any, events: list[dict[str, Any]]) -> bool:
    """Return whether an entity is a crew with finished tasks, inside a method that has not finished since."""
    if not isinstance(entity, dict) or entity.get("entity_type") != "crew":
        return False
    if not any(task.get("output") for task in entity.get("tasks") or []):
        return False
    kickoff = entity.get("checkpoint_kickoff_event_id")
    began = next((at for at, event in enumerate(events) if event.get("event_id") == kickoff), None)
    if began is None:
        return False
    started = [event for event in events[:began] if event.get("type") == "method_execution_started"]
    ended = [event for event in events[began:] if event.get("type") == "method_execution_finished"]
    methods = {str(event.get("method_name")) for event in ended}
    return bool(started) and str(started[-1].get("method_name")) not in methods


def _restore_outputs(crew: Any, inputs: Any, unfinished: list[Any], reporter: Reporter) -> None:
    equal = next((saved for saved in unfinished if _are_equal(crew, inputs, saved)), None)
    if equal is None:
        return
    unfinished.remove(equal)
    kept = []
    for position, (task, saved) in enumerate(zip(crew.tasks, equal["tasks"], strict=True), 1):
        if saved.get("output"):
            task.output = TaskOutput.model_validate(saved["output"])
            kept.append((position, str(task.id)))
    tasks.hold_tasks({identifier for _position, identifier in kept})
    reporter.warn(
        "crewai.inner_crew_continues",
        name=crew.name or "",
        positions=", ".join(str(position) for position, _identifier in kept),
    )


def _are_equal(crew: Any, inputs: Any, saved: Mapping[str, Any]) -> bool:
    texts = [
        str(task.get("checkpoint_original_description") or task["description"]) for task in saved["tasks"]
    ]
    return (
        [task.description.strip() for task in crew.tasks] == [text.strip() for text in texts]
        and (saved.get("name") or "") == (crew.name or "")
        and _plain(inputs) == _plain(saved.get("checkpoint_inputs"))
    )


def _plain(inputs: Any) -> Any:
    return json.loads(json.dumps(inputs or {}, default=str))
