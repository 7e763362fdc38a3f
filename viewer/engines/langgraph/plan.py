"""The plan of a fork or resume: what a person may change, and the nodes that run next."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.answer_schema import (
    MAX_FIELDS,
    MAX_OPTIONS,
    AnswerInvalid,
    check_answer,
    fits,
    options_of,
)
from viewer.engines.entry_points import JSON_TYPES, InputName
from viewer.engines.langgraph import super_steps
from viewer.engines.langgraph.channels import as_written, message_of, with_types
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.super_steps import BUMPS, mapping, sequence
from viewer.engines.langgraph.tabs import preview
from viewer.engines.plan import (
    MISSING,
    Action,
    AnswerField,
    AnswerOption,
    Editable,
    EditableMessage,
    EditRefused,
    Edits,
    MessageEdit,
    OpenQuestion,
    Outlook,
    Reason,
    Schema,
    StateEntry,
    Step,
    Unit,
)
from viewer.messages.catalog import gettext_noop as _
from viewer.messages.message import UserMessage
from viewer.redaction import MARKER

# The answers that an interrupt's value suggests: choices, reviews of actions, schemas, yes or no.


CHOICES = ("options", "choices", "actions")
SCHEMAS = ("schema", "json_schema", "response_schema", "answer_schema", "requestedSchema")
_RUNS, _CHANGED = _("The action runs as it is."), _("The action runs with these arguments.")
_NOT_RUN = _("The action does not run. The graph receives the message.")
_SKIPPED = _("The action does not run.")
# A question that begins with one of these words is answered by yes or no.
_BEGINNINGS = (
    *("is", "are", "was", "were", "do", "does", "did", "should", "shall", "can", "could", "may", "will"),
    *("would", "has", "have", "approve", "accept", "confirm", "continue", "proceed", "publish", "send"),
)
_YES_NO = re.compile(rf"(?:{'|'.join(_BEGINNINGS)})\b[^?]*\?\s*$", re.IGNORECASE)
_WORDS = re.compile(r"[(\[](y|yes)/(n|no)[)\]]\W*$", re.IGNORECASE)


def suggested(value: Any, prompt: Any, schema: Mapping[str, Any] | None = None) -> tuple[AnswerOption, ...]:
    """The answers that an interrupt suggests, if any, by the schema of its answer, its value or its text.

    ``prompt`` is the question's text.
    """
    options = options_of(schema) if schema else []
    if not options:
        options = _reviewed(value) or _one_of(value) or _from_schema(value) or _yes_or_no(prompt)
    by_label: dict[str, AnswerOption] = {}
    for option in options:
        if schema and option.is_complete and not fits(option.value, schema):
            continue
        by_label.setdefault(option.label, option)
    return tuple(by_label.values())[:MAX_OPTIONS]


def _reviewed(value: Any) -> list[AnswerOption]:
    """The decisions on actions that a person reviews, in one of LangGraph's two forms."""
    requests, configs = mapping(value).get("action_requests"), mapping(value).get("review_configs")
    if isinstance(requests, list) and isinstance(configs, list) and requests:
        return list(_decisions(requests, configs))
    # An interrupt with a list of requests expects a list of answers.
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    action, allowed = mapping(mapping(one).get("action_request")), mapping(mapping(one).get("config"))
    if not isinstance(action.get("action"), str):
        return []
    return list(_responses(action, allowed, is_list=isinstance(value, list)))


def _decisions(requests: Sequence[Any], configs: Sequence[Any]) -> Iterator[AnswerOption]:
    """The answers to the middleware that reviews tool calls. Each makes the same decision for all calls."""
    allowed = [sequence(mapping(one).get("allowed_decisions")) for one in configs]

    def given(kind: str) -> Any:
        return {"decisions": [{"type": kind} for _request in requests]}

    offered = [
        kind for kind in ("approve", "edit", "reject", "respond") if all(kind in one for one in allowed)
    ]
    for kind in offered:
        if kind == "approve":
            yield AnswerOption(kind, given(kind), effect=_RUNS)
        elif kind == "edit" and len(requests) == 1:
            action = mapping(requests[0])
            value = given(kind)
            value["decisions"][0]["edited_action"] = {"name": action.get("name"), "args": action.get("args")}
            fields = _arguments(action.get("args"), ("decisions", 0, "edited_action", "args"))
            yield AnswerOption(kind, value, fields, _CHANGED)
        elif kind != "edit":
            paths = [("decisions", number, "message") for number in range(len(requests))]
            needs = kind == "respond"
            fields = tuple(AnswerField(path, _("message"), is_required=needs) for path in paths)
            yield AnswerOption(kind, given(kind), fields, _NOT_RUN)


def _responses(
    action: Mapping[str, Any], allowed: Mapping[str, Any], *, is_list: bool
) -> Iterator[AnswerOption]:
    """The answers that the configuration of a ``HumanInterrupt`` allows."""
    start: tuple[str | int, ...] = (0,) if is_list else ()

    def given(kind: str, args: Any) -> Any:
        answer = {"type": kind, "args": args}
        return [answer] if is_list else answer

    if allowed.get("allow_accept"):
        yield AnswerOption("accept", given("accept", None), effect=_RUNS)
    if allowed.get("allow_edit"):
        request = {"action": action["action"], "args": action.get("args")}
        fields = _arguments(action.get("args"), (*start, "args", "args"))
        yield AnswerOption("edit", given("edit", request), fields, _CHANGED)
    if allowed.get("allow_respond"):
        field = AnswerField((*start, "args"), _("message"), is_required=True)
        yield AnswerOption("respond", given("response", ""), (field,), _NOT_RUN)
    if allowed.get("allow_ignore"):
        yield AnswerOption("ignore", given("ignore", None), effect=_SKIPPED)


def _arguments(arguments: Any, path: tuple[str | int, ...]) -> tuple[AnswerField, ...]:
    """A field for each argument with its value, or one for all if they are too many or not named."""
    if not isinstance(arguments, dict) or len(arguments) > MAX_FIELDS:
        return (AnswerField(path, _("arguments"), "json", stored=arguments),)
    return tuple(
        AnswerField((*path, name), name, _kind_of(one), stored=one) for name, one in arguments.items()
    )


def _one_of(value: Any) -> list[AnswerOption]:
    """The choices that the value lists: plain values, or objects with a value and a label."""
    for name in CHOICES:
        found = mapping(value).get(name)
        if isinstance(found, list) and 0 < len(found) <= MAX_OPTIONS:
            options = [_choice(one) for one in found]
            if all(options):
                return [option for option in options if option]
    return []


def _choice(one: Any) -> AnswerOption | None:
    if isinstance(one, str | int | float):
        return AnswerOption(_text(one), one)
    found = mapping(one)
    value = next((found[name] for name in ("value", "id", "key") if name in found), MISSING)
    label = next((found[name] for name in ("label", "title", "name") if found.get(name)), value)
    return None if value is MISSING or not isinstance(label, str | int) else AnswerOption(_text(label), value)


def _from_schema(value: Any) -> list[AnswerOption]:
    """A form for the JSON schema that the value contains or is."""
    named = [mapping(mapping(value).get(name)) for name in SCHEMAS]
    for schema in filter(None, named):
        if options := options_of(schema):
            return options
    own = mapping(value)
    is_schema = own.get("type", "object") == "object" and isinstance(own.get("properties"), dict)
    return options_of(own) if is_schema else []


def _yes_or_no(prompt: Any) -> list[AnswerOption]:
    """Yes and no as booleans, or the two words that the question names; empty for other questions."""
    text = prompt.strip() if isinstance(prompt, str) else ""
    if words := _WORDS.search(text):
        return [AnswerOption(word, word) for word in words.groups()]
    last = re.split(r"(?<=[.!:\n])\s+", text)[-1]
    if _YES_NO.match(last) and " or " not in last:
        return [AnswerOption(_("Yes"), True), AnswerOption(_("No"), False)]
    return []


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes_no"
    if isinstance(value, int | float):
        return "whole_number" if isinstance(value, int) else "number"
    return "text" if isinstance(value, str) else "json"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# The questions that a checkpoint or a run waits for: interrupts, and the answers that they suggest.


# The keys of a value that usually hold the text of a question, as in the runner's interrupts.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")


def open_questions(contents: Contents) -> Iterator[OpenQuestion]:
    """The interrupts of waiting tasks, each id once: an interrupt of a subgraph is stored twice."""
    seen: set[str] = set()
    for task in contents.tasks:
        for one in task.questions:
            if not one.id or one.id not in seen:
                seen.add(one.id)
                asked = _prompt(one.value)
                prompt = f"{task.node}: {_in_words(asked)}".removeprefix(": ")
                options = suggested(one.value, asked, one.schema)
                yield OpenQuestion(one.id, prompt, options, one.schema)


def asked_question(prompt: str, context: Mapping[str, Any]) -> OpenQuestion | None:
    """The question of a run, with the answers that it suggests; None if its value was cut or is not JSON."""
    if context.get("is_cut"):
        return None
    output = context.get("output")
    try:
        value = json.loads(output) if isinstance(output, str) and output else prompt
    except (ValueError, RecursionError):
        return None
    schema = _schema(context.get("schema"))
    options = suggested(value, _prompt(value), schema)
    return OpenQuestion(str(context.get("interrupt") or ""), prompt, options, schema)


def _schema(text: Any) -> Mapping[str, Any] | None:
    """The schema of an answer, of which the runner writes the text."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return mapping(found) or None


def _in_words(asked: Any) -> str:
    """The question on one line. A mapping without nested values becomes names and values, not JSON."""
    plain = (
        isinstance(asked, dict) and asked and not any(isinstance(one, dict | list) for one in asked.values())
    )
    return preview(", ".join(f"{name}: {value}" for name, value in asked.items()) if plain else asked)


def _prompt(value: Any) -> Any:
    """The text of the question in an interrupt's value, or else the whole value."""
    found = (value.get(name) for name in PROMPTS) if isinstance(value, dict) else ()
    return next((one for one in found if isinstance(one, str) and one), value)


# Edits, removes and adds single messages of a thread.


TYPE, FIELDS = "__type__", "fields"
MODULE = "langchain_core.messages"
# The class of a new message, by its role.
CLASSES = {
    "user": f"{MODULE}.human.HumanMessage",
    "assistant": f"{MODULE}.ai.AIMessage",
    "system": f"{MODULE}.system.SystemMessage",
    "tool": f"{MODULE}.tool.ToolMessage",
}
REMOVE = f"{MODULE}.modifier.RemoveMessage"


def editable_messages(value: Any) -> tuple[EditableMessage, ...]:
    """The messages of a channel; empty if it contains anything other than LangChain's messages."""
    found = [_editable(position, one) for position, one in enumerate(sequence(value))]
    messages = [one for one in found if one is not None]
    return tuple(messages) if len(messages) == len(found) else ()


def _editable(position: int, value: Any) -> EditableMessage | None:
    shown, fields = message_of(value), mapping(value).get(FIELDS)
    if shown is None or not isinstance(fields, dict) or not str(value.get(TYPE)).startswith(MODULE):
        return None
    return EditableMessage(
        position,
        shown.id,
        shown.role,
        shown.name,
        fields.get("content"),
        tuple(sequence(fields.get("tool_calls"))),
        shown.answers_call,
    )


def edited_messages(stored: Any, edits: Sequence[MessageEdit], *, by_id: bool) -> list[Any]:
    """What an update writes to a channel with messages: all messages, or only the changed ones if ``by_id``.

    The ids and the order stay the same. A new message can be inserted before another only if all messages are
    written. Raises EditRefused.
    """
    if by_id and any(edit.before is not None for edit in edits):
        raise EditRefused("langgraph.message_place_by_id")
    changed = {edit.position: edit for edit in edits if edit.position is not None}
    new = [edit for edit in edits if edit.position is None]
    written: list[Any] = []
    for position, message in enumerate(sequence(stored)):
        edit = changed.get(position)
        written += [_new(one) for one in new if one.before == position]
        if by_id and edit is not None:
            removal = {TYPE: REMOVE, FIELDS: {"id": _id_of(message)}}
            written.append(removal if edit.is_removed else _changed(message, edit))
        elif not by_id and (edit is None or not edit.is_removed):
            written.append(message if edit is None else _changed(message, edit))
    written += [_new(one) for one in new if one.before is None]
    if MARKER in json.dumps(written, ensure_ascii=False):
        raise EditRefused("langgraph.message_redacted")
    return written


def _changed(message: Mapping[str, Any], edit: MessageEdit) -> dict[str, Any]:
    fields = {**message[FIELDS], "content": edit.content}
    if "tool_calls" in fields and list(sequence(fields["tool_calls"])) != list(edit.calls):
        fields["tool_calls"] = list(edit.calls)
        # Remove the provider's own copy of the calls, which would be sent instead of the edited calls.
        extra = mapping(fields.get("additional_kwargs"))
        fields["additional_kwargs"] = {key: value for key, value in extra.items() if key != "tool_calls"}
    return {TYPE: message[TYPE], FIELDS: fields}


def _id_of(message: Mapping[str, Any]) -> str:
    identifier = str(message[FIELDS].get("id") or "")
    if not identifier or MARKER in identifier:
        raise EditRefused("langgraph.message_without_id")
    return identifier


def _new(edit: MessageEdit) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": edit.content}
    if edit.role == "assistant" and edit.calls:
        fields["tool_calls"] = list(edit.calls)
    if edit.role == "tool":
        fields["tool_call_id"] = edit.answers_call
    return {TYPE: CLASSES.get(edit.role, CLASSES["user"]), FIELDS: fields}


# The schema of a graph, from the project's code or else from a checkpoint.


# Nodes of the engine itself.
INTERNAL_NODES = ("__start__", "__input__", "__interrupt__", "__copy__", BUMPS)


def schema(contents: Contents | None, report: Mapping[str, Any]) -> Schema:
    """The schema in a preflight report; without a report, the nodes that the checkpoint shows."""
    if "nodes" not in report:
        return Schema(units=_seen(contents) if contents else ())
    return Schema(
        entries={str(one.get("name")): _entry(one) for one in _objects(report.get("channels"))},
        units=tuple(str(node) for node in sequence(report["nodes"])),
        configurable=_names(report.get("configurable")),
        context=_names(report.get("context")),
        is_inferred=False,
    )


def _seen(contents: Contents) -> tuple[str, ...]:
    """The nodes that have run before the checkpoint or run after it."""
    seen = mapping(contents.checkpoint.get("versions_seen"))
    following = contents.triggered_nodes
    return tuple(dict.fromkeys(node for node in (*seen, *following) if node not in INTERNAL_NODES))


def _entry(channel: Mapping[str, Any]) -> StateEntry:
    return StateEntry(JSON_TYPES.get(str(channel.get("type"))), str(channel.get("reducer") or ""))


def _names(found: Any) -> tuple[InputName, ...]:
    return tuple(
        InputName(
            str(one.get("name")),
            JSON_TYPES.get(str(one.get("type"))),
            one.get("default"),
            has_default="default" in one,
        )
        for one in _objects(found)
    )


def _objects(found: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in sequence(found) if isinstance(one, dict)]


# What a person may change in a checkpoint of LangGraph before a fork.


OPAQUE = "__opaque__"


def editable(contents: Contents) -> Editable:
    """The channels of a thread's state, with their types, and the nodes that have run."""
    if contents.opaque or (contents.namespace and not contents.is_waited_for):
        return Editable()
    # A function has values, but no state that could be changed.
    channels = {} if contents.is_functional else contents.channels
    stored = {name: value for name, value in channels.items() if not _is_opaque(value)}
    conversations = {name: found for name, value in stored.items() if (found := editable_messages(value))}
    state = {name: value if name in conversations else as_written(value) for name, value in stored.items()}
    seen = mapping(contents.checkpoint.get("versions_seen"))
    return Editable(
        state=state,
        opaque=tuple(name for name in channels if name not in state),
        as_nodes=() if contents.is_functional else tuple(node for node in seen if node not in INTERNAL_NODES),
        conversations=conversations,
        questions=tuple(open_questions(contents)),
    )


def typed_state(contents: Contents, state: Mapping[str, Any]) -> dict[str, Any]:
    """Edited values of channels with the types of the values that they replace. Raises EditRefused."""
    stored = contents.channels
    return {name: with_types(value, stored.get(name), name) for name, value in state.items()}


def _is_opaque(value: Any) -> bool:
    """Whether a part of the value is not decoded, so that the value cannot be written again."""
    level = [value]
    while level:
        if any(isinstance(item, dict) and OPAQUE in item for item in level):
            return True
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return False


# The plan of a fork or resume of LangGraph's checkpoints: the nodes that run next.


def units_of(contents: Contents) -> list[Unit]:
    """The nodes that run next. A checkpoint does not list the other nodes of the graph."""
    return [Unit(unit, unit) for unit, _node in _numbered(contents.triggered_nodes)]


def plan(contents: Contents, edits: Edits, source: Any = None, *, is_fork: bool = True) -> list[Step]:
    """The nodes that run next, as far as the checkpoint shows. Raises EditRefused.

    A resume, or a fork that only answers questions, uses the writes of the nodes that have finished; another
    fork runs them again. If the edited state is attributed to a node, the list is empty: only the graph knows
    what follows.
    """
    _check(contents, edits, is_fork)
    if edits.as_node:
        return []
    following = contents.triggered_nodes
    if is_fork and not following and not edits.state and super_steps.is_last(contents.checkpoint):
        raise EditRefused("langgraph.nothing_to_fork")
    # A fork of a checkpoint asks again what was answered after it, if the rows do not hold the answer.
    asks = any(task.attempt.status == "waiting" for task in contents.tasks)
    if not is_fork or (asks and not edits.state):
        ended = (Action.KEPT, Reason.FINISHED)
    else:
        ended = (Action.AGAIN if edits.state else Action.RUNS, Reason.RUNS_AGAIN)
    finished = [task.node for task in contents.tasks if task.attempt.status == "done"]
    steps = []
    for position, (unit, node) in enumerate(_numbered(following), 1):
        is_finished = node in finished
        if is_finished:
            finished.remove(node)
        action = ended if is_finished else (Action.RUNS, Reason.UNFINISHED)
        steps.append(Step(unit, position, unit, "", *action))
    return steps


def _check(contents: Contents, edits: Edits, is_fork: bool) -> None:
    for what in ("inputs", "outputs", "again", "keep"):
        if getattr(edits, what):
            raise EditRefused("langgraph.only_state", what=what)
    if contents.namespace and not (is_fork and contents.is_waited_for):
        raise EditRefused("langgraph.subgraph_not_forkable")
    typed_state(contents, edits.state or {})
    if not is_fork and (edits.state or edits.as_node):
        raise EditRefused("langgraph.resume_has_no_edits")
    if edits.answers and (edits.state or edits.as_node):
        raise EditRefused("langgraph.answer_and_edit")
    questions = list(open_questions(contents)) if edits.answers else []
    if edits.answers and not questions:
        raise EditRefused("langgraph.no_interrupt")
    for question in questions:
        name = "" if "" in edits.answers and len(questions) == 1 else question.id
        if question.schema and name in edits.answers:
            try:
                check_answer(edits.answers[name], question.schema)
            except AnswerInvalid as invalid:
                raise EditRefused(invalid.message) from invalid


def _numbered(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a unit and its node. If a node runs several times, its units are numbered from the second."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
        yield (node if counts[node] == 1 else f"{node} {counts[node]}"), node


def outlook(contents: Contents, source: Any = None) -> Outlook:
    """A note that an edited state may lead to other nodes."""
    return Outlook(notes=() if contents.namespace else (UserMessage("langgraph.other_nodes"),))
