"""What a form of a launch begins with: a checkpoint, what was sent, and the values of a job or of a link."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import OuterRef, Subquery
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from viewer.engines import engine_of
from viewer.engines.plan import MISSING, NO_SCHEMA, EditableMessage, Schema
from viewer.engines.protocol import Contents, kind_of
from viewer.host_requests import NotReadable
from viewer.launching.calls import model_choice_of
from viewer.launching.edits import as_json, text_of
from viewer.launching.edits import kind_of as value_kind_of
from viewer.launching.options import RECORDED
from viewer.launching.preflight import schema_at
from viewer.launching.requests import edits_not_kept, edits_to_repeat, matching_entry_point, models_to_repeat
from viewer.models import Checkpoint, Job, Location, Project, Right, Run
from viewer.presentation.calls import replayed_answer
from viewer.records.bodies import readable_contents, stored_contents
from viewer.records.lineage.tree import free_name
from viewer.records.permissions import may
from viewer.validation import InvalidInput, whole_number
from viewer.web.launch.conversations import conversations_in, message_fields
from viewer.web.launch.edits import (
    EntryPointForm,
    OutputsForm,
    PreflightForm,
    ValuesForm,
    editable_parts,
    output_name,
)
from viewer.web.launch.options import (
    CACHE_WARMUP,
    EVENTS,
    MAX_CHECKPOINTS,
    TOOL_FIELD,
    LimitsForm,
    ModelsForm,
    OptionParts,
    StartTimeForm,
    ToolsForm,
    checkpoints_form,
    limit_texts,
    name_of,
    run_settings_part,
)


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted form and its user. ``data`` is None if the page is shown for the first time.

    ``chosen`` are the answers that the link to the page named, by their field, and ``opened`` is the part at
    which the form opens. ``call`` names the recorded model call whose answer is used, or ``answer`` another
    one of a replay (JOB:NUMBER). ``value`` is a part of another checkpoint whose value is used (KEY:PART).
    """

    data: QueryDict | None
    user: AbstractBaseUser | None
    key: UUID
    chosen: Mapping[str, str] = field(default_factory=dict)
    opened: str = ""
    call: str = ""
    answer: str = ""
    value: str = ""

    @property
    def page_values(self) -> dict[str, Any]:
        """The values that every page uses."""
        return {"key": self.key, "is_sent": self.data is not None}


@dataclass(frozen=True, slots=True)
class Retry:
    """A job that is started again. ``data`` are its fields, ``missing`` the edits that were not stored."""

    job: Job
    data: MultiValueDict[str, str]
    missing: list[str]


# Reading a larger checkpoint only for the cost would take too long.
MAX_BYTES_FOR_COST = 4 * 1024 * 1024


@dataclass(frozen=True)
class StartingPoint:
    """The checkpoint from which something starts, and its project."""

    checkpoint: Checkpoint
    contents: Contents
    project: Project | None

    @property
    def folder(self) -> Path | None:
        return Path(self.project.folder) if self.project else None

    @property
    def entry_points(self) -> list[str]:
        return list(self.project.entry_points) if self.project else []

    def entry_point(self, data: Any) -> str:
        """The chosen entry point; the proposed one if ``data`` is None."""
        return EntryPointForm(data, self.entry_points, self.proposed).chosen_entry_point

    @cached_property
    def proposed(self) -> dict[str, str]:
        """The proposed entry point, by field."""
        return {"entry_point": matching_entry_point(self.contents, self.project)}

    def schema(self, entry_point: str) -> Schema:
        """The schema of a run, from a stored preflight check with this entry point, if there is one."""
        return schema_at(self.checkpoint, self.contents, self.project, entry_point)

    def options(self, models: ModelsForm, data: Any, schema: Schema = NO_SCHEMA) -> OptionParts:
        """The option parts of the page, in their initial state if ``data`` is None."""
        contents = self.contents
        kind = kind_of(engine_of(contents), contents.kind)
        events = contents.checkpoint_events
        part = checkpoints_form(engine_of(contents), self.project, contents.kind, events, data)
        settings = run_settings_part(kind, schema, data)
        return OptionParts(models, part, StartTimeForm(data), LimitsForm(data), settings, ToolsForm(data))

    def request_values(
        self, options: OptionParts, preflight: PreflightForm, submission: Submission
    ) -> dict[str, Any]:
        """The fields that every request from a checkpoint has."""
        return {
            "checkpoint": self.checkpoint,
            "contents": self.contents,
            "furthest": furthest(self.checkpoint),
            "project": self.project,
            "folder": self.folder,
            **options.request_values,
            "answers": preflight.answers,
            "requested_by": submission.user,
            "seen_plan": None if submission.data is None else submission.data.get("shown"),
        }


def source_at(checkpoint: Checkpoint, on: Location | None = None) -> StartingPoint:
    """The checkpoint with its contents and the project of its location, or that of ``on``."""
    return StartingPoint(checkpoint, stored_contents(checkpoint), (on or checkpoint.location).project)


def furthest(checkpoint: Checkpoint) -> Contents | None:
    """The contents of the run's furthest checkpoint; None if it is this one."""
    row = furthest_of([checkpoint]).get(checkpoint.pk)
    return stored_contents(row) if row else None


def furthest_of(checkpoints: Sequence[Checkpoint]) -> dict[int, Checkpoint]:
    """The furthest checkpoint of each one's run by its key, if that is another one."""
    rows = Checkpoint.objects.filter(run=OuterRef("pk"), size__lte=MAX_BYTES_FOR_COST)
    rows = rows.exclude(state=Checkpoint.State.NO_COPY).order_by("-units_done", "-event_count")
    runs = Run.objects.filter(pk__in=[checkpoint.run_id for checkpoint in checkpoints]).order_by()
    pks = runs.annotate(furthest=Subquery(rows.values("pk")[:1])).values("furthest")
    found = {row.run_id: row for row in Checkpoint.objects.filter(pk__in=pks).select_related("location")}
    of_runs = ((checkpoint.pk, found.get(checkpoint.run_id)) for checkpoint in checkpoints)
    return {pk: row for pk, row in of_runs if row is not None and row.pk != pk}


# The values with which a form opens: those of a job that is started again, or of what a link names.


def retry_of_fork(
    job: Job,
    values: Iterable[ValuesForm],
    outputs: OutputsForm,
    models: ModelsForm,
    taken: set[str],
    conversations: Collection[str] = (),
) -> Retry:
    """The retry of a fork or resume. The forms are as first shown, ``taken`` are branches.

    Edits of ``conversations`` have to be typed again: a request holds only what they write.
    """
    kept = edits_to_repeat(job)
    options = job.request.get("options") or {}
    typed_again = [name for name in kept["state"] if name in conversations]
    kept["state"] = {name: value for name, value in kept["state"].items() if name not in conversations}
    sent = {f"mode:{name}": "add" for name in kept["state"] if name not in (options.get("replace") or ())}
    sent["as_node"] = str(options.get("as_node") or "")
    sent["into"] = str(options.get("into") or "")
    sent["code"] = RECORDED if options.get("commit") else ""
    sent |= edit_fields(kept, values, outputs)
    sent |= {"branch": free_name(job.branch, taken), "entry_point": job.request.get("entry_point", "")}
    data = _data(job, sent | _options(job, models))
    data.setlist("again", [step["unit"] for step in job.plan if step.get("reason") == "requested"])
    data.setlist("keep", [step["unit"] for step in job.plan if step.get("reason") == "held"])
    return Retry(job, data, [*edits_not_kept(job), *typed_again])


def edit_fields(
    edits: Mapping[str, Mapping[str, Any]], values: Iterable[ValuesForm], outputs: OutputsForm
) -> dict[str, str]:
    """The texts of these edits, by part and name as in a request. Those without a field are left out."""
    sent: dict[str, str] = {}
    for form in values:
        sent |= _values(form, edits.get("inputs" if form.group == "input" else form.group) or {})
    for unit, edit in (edits.get("outputs") or {}).items():
        if output_name(unit) in outputs.fields:
            text = as_json(edit["json"]) if "json" in edit else str(edit.get("text", ""))
            sent[output_name(unit)] = text
    return sent


def retry_of_run(job: Job, inputs: ValuesForm, options: OptionParts) -> Retry:
    """The retry of a new run. The forms are as first shown."""
    kept = edits_to_repeat(job)
    sent = _values(inputs, kept["inputs"], all_of=True) | _options(job, options.models)
    for form in options.values_forms:
        sent |= _values(form, kept[form.group])
    return Retry(job, _data(job, sent | {"location": str(job.location.uid)}), edits_not_kept(job))


def _values(form: ValuesForm, typed: Mapping[str, Any], all_of: bool = False) -> dict[str, str]:
    """Each value in its field, as JSON if it has another type, else in the field of further values.

    ``all_of``: whether missing values are sent as empty fields.
    """
    sent: dict[str, str] = {}
    fields = form.value_fields
    for name, one in fields.items():
        if one.name not in typed:
            sent |= {name: ""} if all_of and one.is_missing else {}
        elif value_kind_of(typed[one.name]) == one.kind or not one.json_name:
            sent[name] = text_of(typed[one.name], one.kind)
        else:
            sent |= {name: one.stored_text, one.json_name: as_json(typed[one.name])}
    named = {one.name for one in fields.values()}
    others = {name: value for name, value in typed.items() if name not in named}
    return sent | ({form.more_name: as_json(others)} if others and form.more_name in form.fields else {})


def _options(job: Job, models: ModelsForm) -> dict[str, str]:
    """Models, the prompt cache, checkpoints and limits."""
    options = job.request.get("options") or {}
    chosen = models_to_repeat(job)
    sent = {name_of(role): model for role, model in chosen.items() if name_of(role) in models.fields}
    sent[CACHE_WARMUP] = options.get("cache_warmup", "")
    tools = options.get("tools") or {}
    sent |= {f"{TOOL_FIELD}{name}": choice for name, choice in (tools.get("choices") or {}).items()}
    sent |= {"dry_run": "1"} if tools.get("dry_run") else {}
    sent |= {"model_calls": model_choice_of(options).value}
    latest = (options.get("checkpoints") or {}).get("max_checkpoints")
    return sent | ({MAX_CHECKPOINTS: str(latest)} if latest else {}) | limit_texts(job.limits)


def _data(job: Job, sent: Mapping[str, str]) -> MultiValueDict[str, str]:
    """The texts as a form sends them, with the events that write checkpoints."""
    data: MultiValueDict[str, str] = MultiValueDict({name: [text] for name, text in sent.items()})
    checkpoints = (job.request.get("options") or {}).get("checkpoints") or {}
    for name in ("stop_before", "stop_after"):
        data.setlist(name, list((job.request.get("options") or {}).get(name) or []))
    data.setlist(EVENTS, list(checkpoints.get("events") or []))
    return data


# The parts at which a link opens the form.


def is_runnable(checkpoint: Checkpoint, contents: Contents) -> bool:
    """Whether the checkpoint can be forked."""
    engine = engine_of(contents)
    kind = kind_of(engine, checkpoint.entity)
    # A called run continues only within its caller.
    can_edit = checkpoint.run.parent_id is None or engine.editable(contents).state is not None
    is_lost = checkpoint.is_pruned if kind.needs_source else checkpoint.has_no_copy
    return kind.is_runnable and can_edit and not is_lost


def editable_parts_of(
    user: User | AnonymousUser, checkpoint: Checkpoint, contents: Contents
) -> frozenset[str]:
    """The parts beside which a page links to the form that edits them."""
    if not (may(user, Right.RUN, checkpoint.location_id) and is_runnable(checkpoint, contents)):
        return frozenset()
    engine = engine_of(contents)
    edited = engine.editable(contents)
    can_edit_outputs = kind_of(engine, checkpoint.entity).can_edit_outputs
    return editable_parts(edited, conversations_in(edited), can_edit_outputs)


# What a link has edited already: the answer of a model call, or a value of another checkpoint.


def prefilled(
    source: StartingPoint, submission: Submission, values: Iterable[ValuesForm], outputs: OutputsForm
) -> MultiValueDict[str, str] | None:
    """The texts of the form; None if the link names nothing that it can use. The forms are as first shown."""
    if submission.call:
        texts = _answer_texts(source, submission)
    else:
        texts = _value_texts(source, submission, values, outputs)
    if not texts:
        return None
    return MultiValueDict({field: [text] for field, text in {**source.proposed, **texts}.items()})


def _answer_texts(source: StartingPoint, submission: Submission) -> dict[str, str]:
    """The answer as the output of its unit, or in place of the message that the state holds."""
    engine, contents = engine_of(source.contents), source.contents
    call = next((one for one in engine.recorded_calls(contents) if one.name == submission.call), None)
    if call is None:
        return {}
    answer = call.answer
    if submission.answer:
        answer = replayed_answer(submission.answer, source.checkpoint, call.name)
    if answer is None or not call.can_use(answer):
        return {}
    group, _colon, name = call.part.partition(":")
    if group == "outputs" and call.result_of(answer):
        return {output_name(name): call.result_of(answer)}
    if group != "messages":
        return {}
    entry, _colon, position = name.rpartition(":")
    messages = engine.editable(contents).conversations.get(entry, ())
    calls = [{"name": one.name, "args": dict(one.arguments), "id": one.id} for one in answer.tools]
    return message_fields(entry, messages, int(position), answer.text, calls)


def _value_texts(
    source: StartingPoint, submission: Submission, values: Iterable[ValuesForm], outputs: OutputsForm
) -> dict[str, str]:
    """The value of the other checkpoint as the texts of the part at which the form opens."""
    key, _colon, other = submission.value.partition(":")
    group, _colon, name = submission.opened.partition(":")
    try:
        pk = whole_number(key, 1, 2**63 - 1)
        rows = Checkpoint.objects.select_related("location__project", "run", "stored_copy")
        checkpoint = rows.filter(pk=pk).first()
        contents = readable_contents(checkpoint) if checkpoint else None
    except (InvalidInput, NotReadable):
        contents = None
    if contents is None or other.partition(":")[0] != group:
        return {}
    if group == "messages":
        entry = name.rpartition(":")[0]
        parts = differing_messages(entry, contents, source.contents)
        number = next((number for number, part in parts.items() if part == other == submission.opened), 0)
        if not number:
            return {}
        mine = _messages_of(entry, contents)[number - 1]
        theirs = _messages_of(entry, source.contents)
        return message_fields(entry, list(theirs.values()), number - 1, mine.content, mine.calls)
    value = _editable_value(contents, other)
    return {} if value is MISSING else edit_fields({group: {name: value}}, values, outputs)


def differing_messages(entry: str, contents: Contents, others: Contents) -> dict[int, str]:
    """The messages of an entry of the state that can replace those of another checkpoint, by their numbers.

    They have another text or other tool calls than the message at the same position, with the same role.
    """
    mine, theirs = _messages_of(entry, contents), _messages_of(entry, others)
    return {
        at + 1: f"messages:{entry}:{at}"
        for at, one in mine.items()
        if (other := theirs.get(at)) is not None
        and (one.role, type(one.content)) == (other.role, type(other.content))
        and (one.content, _plain_calls(one)) != (other.content, _plain_calls(other))
    }


def _messages_of(entry: str, contents: Contents) -> dict[int, EditableMessage]:
    messages = engine_of(contents).editable(contents).conversations.get(entry, ())
    return {one.position: one for one in messages}


def _plain_calls(message: EditableMessage) -> list[Any]:
    """The tool calls without their ids, which differ whenever a model is called."""
    return [{**one, "id": ""} if isinstance(one, Mapping) else one for one in message.calls]


def _editable_value(contents: Contents, part: str) -> Any:
    """The value of an input, an entry of the state or an output; MISSING if there is none."""
    edited = engine_of(contents).editable(contents)
    group, _colon, name = part.partition(":")
    stored = {"inputs": edited.inputs, "state": edited.state}.get(group) or {}
    if name in stored:
        return stored[name]
    output = next((one for one in edited.outputs if group == "outputs" and one.unit == name), None)
    if output is None:
        return MISSING
    return {"text": output.text} if output.value is None else {"json": output.value}
