"""The questions that a thread waits for, and the answers that they suggest."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.answer_schema import MAX_FIELDS, MAX_OPTIONS, fits, options_of
from viewer.engines.editable import MISSING, AnswerField, AnswerOption, OpenQuestion
from viewer.engines.langgraph.contents import Contents
from viewer.engines.langgraph.super_steps import mapping, sequence
from viewer.engines.langgraph.tabs import preview
from viewer.messages.catalog import gettext_noop as _

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
    return found if isinstance(found, dict) and found else None


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
