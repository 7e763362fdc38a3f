"""What a person asks to be started, as plain data, and the names of forks and sweeps."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.utils.crypto import salted_hmac

from viewer.engines import engine_named, engine_of, engine_with
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import NO_SETTINGS, EditableMessage, Edits, RunSettings
from viewer.engines.protocol import Contents, Engine, kind_of
from viewer.engines.recorded_calls import ModelChoice, RecordedCall, ToolChoice
from viewer.engines.runner_protocol import CheckpointSettings, Options
from viewer.host_requests import HostAway, MatchEntryPoint, ReadSource, Redact, ask
from viewer.launching.edits import as_json
from viewer.models import Checkpoint, Host, Job, Location, Project, RecordedCode
from viewer.models.jobs import EDITS
from viewer.records.lineage.tree import free_name, name_for
from viewer.records.runner_requests import REPEATABLE_EDITS
from viewer.redaction import MARKER

# Launch options: when a job may start, and the limits on what it uses.


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """``start_at`` None starts it as soon as a worker is free. ``limits``: see viewer/models/jobs.py.

    If its host is away, it is refused, unless ``waits_for_host``.
    """

    start_at: datetime | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    waits_for_host: bool = False


def request_digest(request: Mapping[str, Any], options: LaunchOptions) -> str:
    """A digest that identifies the request and reveals nothing of it."""
    content = json.dumps([request, str(options.start_at), dict(options.limits)], sort_keys=True, default=str)
    return salted_hmac("viewer.jobs.asked", content, algorithm="sha256").hexdigest()


# What a person asks to be started, as plain data: a fork, a resume, a new run or a sweep.


# Accepts all redacted parts, or all losses.
ACCEPT_ALL = "*"


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a person accepted before the start.

    ``redacted_parts``, ``losses`` and ``code`` are the digest that the preview showed, or ``ACCEPT_ALL``.
    ``effects`` accepts all effects of the checkpoint for the project.
    """

    redacted_parts: str = ""
    losses: str = ""
    effects: bool = False
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """The fields that every request has.

    A request with the ``key`` of an earlier one starts nothing new. ``seen_plan`` is the digest of the plan
    that was shown to the person, or None.
    """

    project: Project | None
    entry_point: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    cache_warmup: str = ""
    checkpointing: CheckpointSettings = field(default_factory=CheckpointSettings)
    settings: RunSettings = NO_SETTINGS
    options: LaunchOptions = field(default_factory=LaunchOptions)
    accepted: Accepted = field(default_factory=Accepted)
    # The project's component for each stored component, by the stored component's id.
    answers: Mapping[str, str] = field(default_factory=dict)
    key: UUID = field(default_factory=uuid4)
    requested_by: AbstractBaseUser | None = None
    seen_plan: str | None = None

    @property
    def engine(self) -> Engine[Any]:
        """The engine that runs it."""
        raise NotImplementedError

    @property
    def away(self) -> Host | None:
        """The project's host if it does not answer."""
        return self.project.away_host if self.project else None

    @property
    def run_options(self) -> Options:
        """The options that the runner reads, without those that were not chosen."""
        chosen = Options()
        if self.models:
            chosen["models"] = dict(self.models)
        if self.cache_warmup:
            chosen["cache_warmup"] = self.cache_warmup
        if self.checkpointing:
            chosen["checkpoints"] = self.checkpointing
        if self.settings.stop_before:
            chosen["stop_before"] = list(self.settings.stop_before)
        if self.settings.stop_after:
            chosen["stop_after"] = list(self.settings.stop_after)
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest(LaunchRequest):
    """A launch from a checkpoint.

    ``contents`` is the checkpoint's contents, and ``furthest`` those of the run's furthest checkpoint, from
    which the cost is estimated. The source in ``folder``, the project's, says which steps may follow.
    """

    checkpoint: Checkpoint
    contents: Contents
    furthest: Contents | None = None
    folder: Path | None = None
    # What happens when the run calls a tool, by its name, as far as a person has chosen.
    tools: Mapping[str, ToolChoice] = field(default_factory=dict)
    # No tool is called: each is answered with a recorded result, or refused.
    dry_run: bool = False
    # What happens when the run calls a model. Recorded answers make it a dry run.
    model_calls: ModelChoice = ModelChoice.CALL
    # Whether the commit that was recorded with the checkpoint runs, instead of the code in the folder.
    uses_recorded_code: bool = False

    @property
    def engine(self) -> Engine[Any]:
        return engine_of(self.contents)

    @property
    def root_kind(self) -> RootKind:
        return kind_of(self.engine, self.contents.kind)

    @property
    def source(self) -> ReadSource:
        """Asks the ``source_host`` what the engine reads of the entry point's source in the ``folder``."""
        folder, kind = str(self.folder), self.contents.kind
        return ReadSource(self.engine.name, folder, self.entry_point, kind, self.commit)

    @property
    def source_host(self) -> int:
        return self.project.host_id if self.project else self.checkpoint.location.host_id

    @property
    def commit(self) -> str:
        """The commit that runs; empty for the code in the project's folder."""
        if not self.uses_recorded_code:
            return ""
        code = RecordedCode.of(self.checkpoint, self.project or self.checkpoint.location.project)
        return code.commit if code else ""

    @property
    def calls_no_tool(self) -> bool:
        return self.dry_run or self.calls_no_model

    @property
    def calls_no_model(self) -> bool:
        return self.model_calls != ModelChoice.CALL

    @property
    def run_options(self) -> Options:
        """The options that the runner reads. Without a model, there is no prompt cache to warm."""
        chosen = super(CheckpointRequest, self).run_options
        if self.calls_no_model:
            chosen.pop("cache_warmup", None)
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest(CheckpointRequest):
    """A fork with these edits, on a new branch. ``again_stale`` has all stale steps run again.

    ``into`` is the fork target to which it is published when it has ended; empty for none. ``on`` is a
    location of another host, on which it runs in the project of that location, and to which it writes.
    """

    kind: ClassVar[Job.Kind] = Job.Kind.FORK
    branch: str
    edits: Edits = field(default_factory=Edits)
    again_stale: bool = False
    into: str = ""
    on: Location | None = None

    @property
    def location(self) -> Location:
        """The location to which it writes."""
        return self.on or self.checkpoint.location

    @property
    def target_on_other_host(self) -> str:
        """The fork target to which it is published on another host; empty if it needs none."""
        return self.root_kind.target_on_other_host if self.on else ""

    @property
    def run_options(self) -> Options:
        """The options that the runner reads, and where the fork is published."""
        chosen = super(ForkRequest, self).run_options
        if into := self.target_on_other_host or self.into:
            chosen["into"] = into
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequest(ForkRequest):
    """A resume. ``branch`` is the checkpoint's own."""

    kind: ClassVar[Job.Kind] = Job.Kind.RESUME


# The requests from a checkpoint that run it, by the kind of their job.
FORKS_AND_RESUMES: dict[str, type[ForkRequest]] = {Job.Kind.FORK: ForkRequest, Job.Kind.RESUME: ResumeRequest}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest(LaunchRequest):
    """The publication of the fork that wrote this checkpoint to its scratch store.

    ``thread`` is the name of the new thread; empty for the id of the fork's job.
    """

    checkpoint: Checkpoint
    into: str
    thread: str = ""

    @property
    def engine(self) -> Engine[Any]:
        return engine_of(self.checkpoint.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest(LaunchRequest):
    """The replay of a recorded model call, with these messages, tools and parameters.

    Each of the ``replay_models`` is called ``times`` times. ``confirmed`` is the number of calls that a
    person has confirmed in a form; None without a form.
    """

    checkpoint: Checkpoint
    call: RecordedCall
    messages: Sequence[EditableMessage]
    tools: Sequence[Mapping[str, Any]] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    replay_models: tuple[str, ...] = ()
    times: int = 1
    confirmed: int | None = None

    @property
    def engine(self) -> Engine[Any]:
        return engine_of(self.checkpoint.location)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One thing that the forks of a sweep differ in, with a value for each.

    ``group`` is input, state, output, model, configurable, context or answer; ``key`` is the name, unit, role
    or question in it. The value None of an output is the stored one.
    """

    group: str
    key: str
    label: str
    values: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest(CheckpointRequest):
    """Forks of one checkpoint, one for each combination of values. Their branches begin with ``prefix``.

    ``score`` is the function that scores the end result of each, as ``module:function``; empty for none.
    """

    prefix: str
    dimensions: Sequence[Dimension]
    again_stale: bool = False
    # The unit that edited states are attributed to; empty if the engine decides.
    as_node: str = ""
    score: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunRequest(LaunchRequest):
    """A run from its start.

    ``target`` is the location that it writes to, or the path of a new one, which must be in one of the
    ``roots``; None allows any path. ``thread`` is the conversation that it continues; empty for a new one.
    """

    kind: RootKind
    name: str
    inputs: Mapping[str, Any]
    target: Location | str
    thread: str = ""
    roots: Sequence[Path] | None = None

    @property
    def engine(self) -> Engine[Any]:
        return engine_named(engine_with(self.kind))


# Redaction of values, for branch names and stored edits.


def redacted(value: Any, project: Project | None) -> Any:
    """Return a JSON value without secrets, also those of this project.

    None while the project's host, which alone knows them, does not answer.
    """
    try:
        return ask(Redact(project.pk if project else None, [value]))[0]
    except HostAway:
        return None


def matching_entry_point(contents: Contents, project: Project | None) -> str:
    """Return the project's only entry point for a checkpoint with these contents; empty if unclear."""
    if project is None:
        return ""
    names = list(project.entry_points)
    asked = MatchEntryPoint(engine_of(contents).name, project.folder, names, contents.kind, contents.name)
    return ask(asked, host=project.host_id)


# Names a fork for its edits, and the forks of a sweep for what differs. No secret is part of a name.


def fork_branch(request: ForkRequest) -> str:
    """Return a free branch name for the edits of a fork, such as ``year-2030`` or ``draft-edited``."""
    # A form that is sent twice names the same branch.
    own = Job.objects.filter(idempotency_key=request.key).values_list("branch", flat=True)
    return branch_for_edits(request, request.location.taken_branches - set(own))


def branch_for_edits(request: ForkRequest, taken: Collection[str]) -> str:
    """Return a branch name for the edits of a fork that is not ``taken``."""
    return name_for(list(_changes(request)), taken)


def sweep_prefix(request: SweepRequest) -> str:
    """Return a free name with which the branches of a sweep begin, such as ``year`` in ``year/2027``."""
    labels = {"output": "output", "model": "model", "answer": "answer"}
    names = [(labels.get(one.group) or one.key, "values") for one in request.dimensions]
    stem = name_for(names, ()).replace("-values", "") if names else "values"
    branches = request.checkpoint.location.taken_branches
    return free_name(stem, branches | {name.partition("/")[0] for name in branches})


def _changes(request: ForkRequest) -> Iterator[tuple[str, str]]:
    """What each edit changes, and its value; an empty one for what is long, structured or a secret."""
    edits = request.edits

    def shown(name: str, value: Any) -> str:
        hidden = redacted({name: value}, request.project)
        text = _text(hidden.get(name)) if isinstance(hidden, dict) else ""
        return "" if MARKER in text else text

    for value in edits.answers.values():
        text = shown("answer", value)
        yield ("", text) if text else ("answer", "")
    settings = {**request.settings.configurable, **request.settings.context}
    for name, value in {**edits.inputs, **(edits.state or {}), **settings}.items():
        yield name, shown(name, value)
    units = {one.unit: one.title for one in request.engine.editable(request.contents).outputs}
    yield from ((units.get(unit, "output"), "") for unit in edits.outputs)
    yield from (("model", shown("model", model)) for model in dict.fromkeys(request.models.values()))
    yield from ((units.get(unit, unit), "again") for unit in sorted(edits.again) if not edits.outputs)


def _text(value: Any) -> str:
    """A short value as text; empty for another one."""
    if isinstance(value, str):
        return "" if "\n" in value else value
    return as_json(value) if isinstance(value, bool | int | float) else ""


# The parts of an ended job's request that a form may show again: everything that is not a secret.


def kept_edits(request: Mapping[str, Any], project: Project | None) -> dict[str, dict[str, Any]]:
    """The edits of a request that contain no secret, by part and name as in the request."""
    typed = {part: request.get(part) or {} for part in EDITS}
    return {
        part: {name: one for name, one in values.items() if redacted({name: one}, project) == {name: one}}
        for part, values in typed.items()
    }


def edits_to_repeat(job: Job) -> dict[str, dict[str, Any]]:
    """The job's stored edits, by part of its request."""
    kept = job.request.get(REPEATABLE_EDITS) or {}
    return {part: dict(kept.get(part) or {}) for part in EDITS}


def models_to_repeat(job: Job) -> dict[str, str]:
    """The models of the job's request by role, without names that contain a secret."""
    models: dict[str, str] = (job.request.get("options") or {}).get("models") or {}
    names = list(models.values())
    shown = redacted(names, job.project) if names else None
    pairs = zip(models.items(), shown or [None] * len(names), strict=True)
    return {role: model for (role, model), name in pairs if name == model}


def edits_not_kept(job: Job) -> list[str]:
    """The names of the job's edits that were not stored, as they may be secrets."""
    kept = edits_to_repeat(job)
    return [name for part in EDITS for name in (job.request.get(part) or {}) if name not in kept[part]]
