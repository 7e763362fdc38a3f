"""Edits, from the arguments of ``fork`` and ``resume``."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.messages import written_conversations
from viewer.cli.arguments.values import NAME, PAIR, TEXT, json_value, pair_of, read_text
from viewer.engines import engine_of
from viewer.engines.planning.answer_schema import AnswerInvalid, parse_answer
from viewer.engines.planning.editable import OpenQuestion
from viewer.engines.planning.plan import Edits
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.requests.values import same_value
from viewer.validation import MAX_DIGITS

# The id of an interrupt.
INTERRUPT = re.compile("[0-9a-f]{32}")


def add_edit_arguments(parser: CommandParser) -> None:
    """Add --input, --output, --state and the choices that go with them."""
    parser.add_argument(
        "--input", action="append", default=[], type=PAIR, metavar="KEY=JSON", help=_("A kickoff input.")
    )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        type=PAIR,
        metavar="TASK=TEXT|@FILE",
        help=_("A finished task's output. TASK is its id, or its number from 1."),
    )
    parser.add_argument("--state", type=TEXT, metavar="JSON|@FILE", help=_("Fields of the state."))
    _add_graph_arguments(parser)
    parser.add_argument(
        "--again", action="append", default=[], type=NAME, metavar="TASK", help=_("Run it again.")
    )
    parser.add_argument(
        "--keep", action="append", default=[], type=NAME, metavar="TASK", help=_("Do not run it again.")
    )


def _add_graph_arguments(parser: CommandParser) -> None:
    """Add the edits that only a graph has."""
    parser.add_argument(
        "--message",
        action="append",
        default=[],
        type=PAIR,
        metavar="CHANNEL=JSON|@FILE",
        help=_(
            'LangGraph: an edit of a message, or a list of them: {"edit": 2, "content": "…"}, '
            '{"remove": 2} or {"add": "user", "content": "…", "before": 2}. 2 is a position from 1, or an id '
            "of a message."
        ),
    )
    parser.add_argument(
        "--replace",
        action="append",
        default=[],
        type=NAME,
        metavar="CHANNEL",
        help=_("LangGraph: --state replaces this channel's value; else a reducer adds to it."),
    )
    parser.add_argument(
        "--as-node",
        type=NAME,
        metavar="NODE",
        help=_("LangGraph: the node that --state is attributed to."),
    )
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        type=TEXT,
        metavar="JSON|ID=JSON",
        help=_("LangGraph: the answer to an interrupt, by its id if several wait."),
    )


def edits_of(options: Mapping[str, Any], contents: Contents) -> Edits:
    """The edits, each value with its JSON type. Raises CommandError."""
    outputs = [pair_of(text, "--output") for text in options["output"]]
    inputs = inputs_of(options)
    engine = engine_of(contents)
    can_be_same = kind_of(engine, contents.kind).can_add_inputs
    stored = (engine.editable(contents).inputs or {}) if can_be_same else {}
    return Edits(
        # A value that it has already is not a change, so nothing becomes stale.
        inputs={
            name: value
            for name, value in inputs.items()
            if name not in stored or not same_value(value, stored[name])
        },
        outputs={
            (unit := unit_named(contents, name)): _output(contents, unit, text) for name, text in outputs
        },
        state=_state(options, contents),
        again=frozenset(unit_named(contents, name) for name in options["again"]),
        keep=frozenset(unit_named(contents, name) for name in options["keep"]),
        replace=frozenset(options["replace"]),
        as_node=options["as_node"] or "",
        answers=answers_of(
            options["answer"], engine.editable(contents).questions if options["answer"] else ()
        ),
    )


def _state(options: Mapping[str, Any], contents: Contents) -> dict[str, Any] | None:
    """The values of ``--state``, and the conversations that ``--message`` edits. Raises CommandError."""
    state = None if options["state"] is None else state_of(options["state"])
    messages = written_conversations(contents, options["message"], options["replace"])
    if both := sorted(messages.keys() & (state or {}).keys()):
        raise CommandError(_("%(name)s is in both --state and --message.") % {"name": both[0]})
    return {**(state or {}), **messages} if messages else state


def answers_of(texts: Sequence[str], questions: Sequence[OpenQuestion]) -> dict[str, Any]:
    """The answers by an interrupt's id; one without an id is under an empty one. Raises CommandError.

    An answer is of the type that its question's schema names, if it has one.
    """
    schemas = {one.id: one.schema for one in questions}
    if len(questions) == 1:
        schemas[""] = questions[0].schema
    found: dict[str, Any] = {}
    for text in texts:
        identifier, mark, value = text.partition("=")
        has_id = bool(mark) and INTERRUPT.fullmatch(identifier) is not None
        name, given = (identifier, value) if has_id else ("", text)
        found[name] = _json_or_text(given, "--answer")
        if schema := schemas.get(name):
            # The plan refuses an answer that does not fit.
            with suppress(AnswerInvalid):
                found[name] = parse_answer(given, schema)
    return found


def inputs_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``--input``, each with its JSON type. Raises CommandError."""
    return named_values(options["input"], "--input", from_files=False)


def named_values(texts: Sequence[str], option: str, *, from_files: bool = True) -> dict[str, Any]:
    """The values of an option that is given as KEY=JSON, or as KEY=@FILE if ``from_files``.

    Raises CommandError.
    """
    pairs = [pair_of(text, option) for text in texts]
    return {
        name: _json_or_text(read_text(text) if from_files else text, f"{option} {name}")
        for name, text in pairs
    }


def unit_named(contents: Contents, name: str) -> str:
    """The id of the unit with this number; any other text is an id."""
    if not name.isascii() or not name.isdigit():
        return name
    engine = engine_of(contents)
    units = engine.units_of(contents)
    if len(name) > MAX_DIGITS or not 1 <= int(name) <= len(units):
        unit = _(kind_of(engine, contents.kind).unit_label)
        raise CommandError(
            _("There is no %(unit)s %(name)s: this checkpoint has %(count)d.")
            % {"unit": unit, "name": name, "count": len(units)}
        )
    return units[int(name) - 1].id


def _output(contents: Contents, unit: str, text: str) -> Any:
    """The text, or its value if the stored output is JSON."""
    text = read_text(text)
    outputs = engine_of(contents).editable(contents).outputs
    output = next((one for one in outputs if one.unit == unit), None)
    if output is None or output.value is None:
        return text
    return {"json": json_value(text, f"--output {output.position}")}


def state_of(text: str) -> dict[str, Any]:
    """The value of ``--state``. Raises CommandError."""
    value = json_value(read_text(text), "--state")
    if not isinstance(value, dict):
        raise CommandError(_("--state must be a JSON object."))
    return value


def _json_or_text(text: str, option: str) -> Any:
    """The JSON value, or the text if it is not JSON, such as a file name.

    Raises CommandError for an object, list or quoted text that is not valid JSON.
    """
    if text.lstrip()[:1] in {"{", "[", '"'}:
        return json_value(text, option)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _refuse_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which Python accepts and JSON does not have."""
    raise ValueError(name)
