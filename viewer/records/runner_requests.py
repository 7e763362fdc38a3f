"""Requests: what a runner is asked to do, as it is stored with a job. The host completes it at the start."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from viewer.engines import engine_of
from viewer.engines.plan import NO_SETTINGS, Edits, RunSettings, Step
from viewer.engines.runner_protocol import (
    CheckpointSource,
    LocationTarget,
    Options,
    OutputEdit,
    ReplayedCall,
    ReplayModels,
    Request,
    ScoredCall,
    StepRequest,
    StoreKind,
)
from viewer.host_requests import WriteTarget
from viewer.models import Checkpoint, Job, Location
from viewer.records.bodies import stored_contents

# The key of a stored request that holds the edits without secrets, for a retry. No runner gets it.
REPEATABLE_EDITS = "kept"
# The key of a stored request with what a start on another host accepted. No runner gets it.
ACCEPTED = "accepted"
# The name that the engine gives to the branch of a new run.
FIRST_BRANCH = "main"


def request_for(
    checkpoint: Checkpoint,
    kind: Job.Kind,
    branch: str,
    edits: Edits,
    steps: Sequence[Step],
    entry_point: str = "",
    options: Options | None = None,
    settings: RunSettings = NO_SETTINGS,
    target: Location | None = None,
) -> Request:
    """The request of a fork or resume, to be stored with its job. ``request_of`` completes it for the runner.

    ``edits.outputs`` holds a text for each unit, or an ``OutputEdit`` if the output is JSON. ``target`` is
    the location on another host to which a fork writes. It starts from the stored copy there.
    """
    request = _request_without_edits(checkpoint)
    if target is not None:
        request["location"] = LocationTarget(path=target.path, store_kind=store_kind_of(target))
    if target is not None or checkpoint.state == Checkpoint.State.PRUNED:
        request["checkpoint"]["stored"] = True
    if kind == Job.Kind.FORK:
        request["kind"], request["branch"] = "fork", branch
    request["inputs"] = dict(edits.inputs)
    request["outputs"] = {unit: output_edit(output) for unit, output in edits.outputs.items()}
    if edits.state is not None:
        # The runner reads typed values. Raises EditRefused.
        engine = engine_of(checkpoint.location)
        typed = engine.typed_state(stored_contents(checkpoint), edits.state) if edits.state else {}
        request["state"] = dict(typed)
    request["steps"] = [StepRequest(task=step.unit, action=step.action.value) for step in steps]
    request["entry_point"] = entry_point
    request["options"] = _with_edits(options, edits)
    return _with_typed_values(request, edits, settings)


def store_kind_of(location: Location | WriteTarget) -> StoreKind:
    """The kind of a location's store, as a runner's request names it."""
    return cast(StoreKind, str(location.store_kind))


def _with_edits(options: Options | None, edits: Edits) -> Options:
    """These options, and the edits that the runner reads as options."""
    options = Options(**(options or {}))
    if edits.as_node:
        options["as_node"] = edits.as_node
    if edits.replace:
        options["replace"] = sorted(edits.replace)
    return options


def _with_typed_values(request: Request, edits: Edits, settings: RunSettings) -> Request:
    """The request with answers, configurable values and context, as far as there are any."""
    typed = {"answers": edits.answers, "configurable": settings.configurable, "context": settings.context}
    return cast(Request, {**request, **{name: dict(values) for name, values in typed.items() if values}})


def request_for_run(
    target: LocationTarget,
    entity: str,
    name: str,
    entry_point: str,
    inputs: Mapping[str, Any],
    options: Options | None = None,
    settings: RunSettings = NO_SETTINGS,
) -> Request:
    """The request of a new run, to be stored with its job. ``inputs`` are complete."""
    request = _empty_request(CheckpointSource(id="", source=""), target, entity, name, FIRST_BRANCH)
    request["kind"], request["entry_point"] = "run", entry_point
    request["inputs"], request["options"] = dict(inputs), Options(**(options or {}))
    return _with_typed_values(request, Edits(), settings)


def request_for_publication(checkpoint: Checkpoint, into: str, new_thread: str) -> Request:
    """The request that writes the fork, to which a checkpoint of a scratch store belongs, to its location."""
    request = _request_without_edits(checkpoint)
    request["kind"] = "publish"
    request["options"] = Options(into=into, new_thread=new_thread)
    return request


def request_for_score(
    checkpoint: Checkpoint, function: str, expected: str = "", call: str = "", replay: str = ""
) -> Request:
    """The request that calls a function of the project with a checkpoint's contents.

    It is called with the ``call`` of this name instead, if there is one, and with the answer of the job
    ``replay`` that has replayed it.
    """
    request = _request_without_edits(checkpoint)
    request["kind"] = "score"
    request["function"] = function
    if expected:
        request["expected"] = expected
    if call:
        request["scored_call"] = ScoredCall(name=call, job=replay)
    return request


def request_for_replay(
    checkpoint: Checkpoint, call: ReplayedCall, replay: ReplayModels, entry_point: str
) -> Request:
    """The request that sends a recorded model call, as edited, to models of the project."""
    request = _request_without_edits(checkpoint)
    request["kind"], request["entry_point"] = "replay", entry_point
    request["call"], request["replay"] = call, replay
    return request


def _request_without_edits(checkpoint: Checkpoint) -> Request:
    """A request to resume a checkpoint as it is."""
    source = CheckpointSource(id=checkpoint.checkpoint_id, source=checkpoint.source)
    location = checkpoint.location
    target = LocationTarget(path=location.path, store_kind=store_kind_of(location))
    return _empty_request(source, target, checkpoint.entity, checkpoint.name, checkpoint.recorded_branch)


def _empty_request(
    source: CheckpointSource, target: LocationTarget, entity: str, name: str, branch: str
) -> Request:
    return Request(
        job="",
        kind="resume",
        checkpoint=source,
        location=target,
        entity=entity,
        name=name,
        branch=branch,
        inputs={},
        outputs={},
        state=None,
        steps=[],
        folder="",
        entry_point="",
        options=Options(),
    )


def output_edit(output: str | Mapping[str, Any]) -> OutputEdit:
    """An edit from a text, or the edit itself."""
    if isinstance(output, str):
        return OutputEdit(text=output)
    return OutputEdit(json=output["json"]) if "json" in output else OutputEdit(text=str(output["text"]))
