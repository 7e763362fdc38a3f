"""The options of every kind of run, each declared once: its parser, its bounds, and its texts.

Forms derive their fields from them (``viewer/web/fields.py``), and commands their arguments
(``viewer/cli/options.py``).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer import validation
from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import Contents, kind_of
from viewer.engines.recorded_calls import ModelChoice, ToolChoice
from viewer.launching.edits import InvalidValue, parse_json, parse_object
from viewer.redaction import MARKER
from viewer.validation import PAIR, InvalidInput, OptionType

Parsed = TypeVar("Parsed")
Chosen = TypeVar("Chosen", bound=str)

MAX_LIMIT = 10**12
THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
MAX_MODEL_CHARACTERS = 200
MAX_BREAKPOINTS = 200
# The most calls that one replay makes.
MAX_REPLAYED_CALLS = 20
# The parameters that a replay can set: those that change an answer, and not where a model is.
REPLAY_PARAMETERS = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop"),
    *("stop_sequences", "frequency_penalty", "presence_penalty", "reasoning_effort"),
)
MAX_FUNCTION_CHARACTERS = 200
# The key of a run's models for every agent.
ALL_AGENTS = "*"
# One agent shares no prompt prefix with another.
MIN_AGENTS_TO_WARM_UP = 2
# Ways to warm the prompt cache, with their labels.
STRATEGIES: dict[str, str | Promise] = {
    "parallel": _("four agents at a time"),
    "sequential": _("one agent after the other"),
    "shared_prefix": _("first the common prefix, then four agents at a time"),
}
# The format in which browsers send a local time. It has no seconds, so the current minute is accepted.
TIME_FORMAT = "%Y-%m-%dT%H:%M"
MINUTE = timedelta(minutes=1)
MAX_KEPT_CHECKPOINTS = 100_000
FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
# Selects all events at which an engine can write a checkpoint.
EVERY_EVENT = "*"
# Selects all units at which a run can stop.
EVERY_UNIT = "*"
# The fork target of a draft, which stays in Forkline only.
SCRATCH = "scratch"


def parse_limit(measure: str, text: str) -> float:
    """The limit as a number above 0; an integer unless it is of seconds or cost. Raises InvalidValue."""
    digits = "".join(text.split()).replace("_", "")
    # A comma that separates no thousands may be a decimal point, which would be lost.
    if THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    try:
        number = validation.number(digits, 0, MAX_LIMIT)
    except InvalidInput:
        number = 0
    if not number:
        raise InvalidValue(gettext("This must be a number above 0, or empty for no limit."))
    if measure in ("seconds", "cost"):
        return number
    if number != int(number):
        raise InvalidValue(gettext("This must be a whole number."))
    return int(number)


def parse_start_time(text: str) -> datetime:
    """The start time in UTC, from an ISO time. A time without a zone is in the server's time zone.

    Raises InvalidValue for a time in the past and for one that the clock skips.
    """
    if not text:
        raise InvalidValue(gettext("Enter a start time."))
    try:
        moment = datetime.fromisoformat(text)
        if timezone.is_naive(moment):
            moment = _in_server_zone(moment)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = gettext("This is not a valid time. Write it as %(example)s.")
        raise InvalidValue(message % {"example": timezone.localtime().strftime(TIME_FORMAT)}) from error
    if moment < timezone.now() - MINUTE:
        raise InvalidValue(gettext("This time has passed."))
    return moment


def _in_server_zone(moment: datetime) -> datetime:
    zone = timezone.get_current_timezone()
    aware = moment.replace(tzinfo=zone)
    if aware.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
        raise ValueError("this time does not exist on that day")
    return aware


def parse_model(name: str) -> str:
    """The name of a model. Raises InvalidValue."""
    if len(name) > MAX_MODEL_CHARACTERS or not name.isprintable() or any(letter.isspace() for letter in name):
        raise InvalidValue(gettext("A model's name is one word, such as openai/gpt-4.1-mini."))
    if MARKER in name:
        raise InvalidValue(gettext("%(marker)s is not a model's name.") % {"marker": MARKER})
    return name


def count_up_to(most: int) -> Callable[[str], int]:
    """A parser of a whole number from 1. It raises InvalidInput."""
    return lambda text: validation.whole_number(text, 1, most)


def parse_units(names: Iterable[str]) -> tuple[str, ...]:
    """The units before or after which a run stops, each once. Raises InvalidInput and InvalidValue."""
    found = tuple(dict.fromkeys(validation.one_line_text(name) for name in names))
    if len(found) > MAX_BREAKPOINTS:
        raise InvalidValue(gettext("There are %(most)d breakpoints at most.") % {"most": MAX_BREAKPOINTS})
    return found


def parse_function(text: str) -> str:
    """The name of a function of a project. Raises InvalidValue."""
    if FUNCTION.fullmatch(text) and len(text) <= MAX_FUNCTION_CHARACTERS:
        return text
    raise InvalidValue(gettext("Name the function as module:function."))


def parse_name(text: str) -> str:
    """A typed name, which a preview checks. Raises InvalidInput."""
    return validation.text_value(text, validation.MAX_CHARACTERS)


def parse_fork_target(text: str, kind: RootKind) -> str:
    """Where a fork is published at its end; empty if it stays a draft. Raises InvalidValue."""
    if not text or INTO.parse(text) == SCRATCH:
        return ""
    if kind.fork_targets and not kind.publishes_at_end:
        raise InvalidValue(gettext("Publish this fork once it has ended: it runs as a draft."))
    if text not in dict(kind.fork_targets):
        raise InvalidValue(gettext("Forks of this checkpoint do not run as drafts, so none is published."))
    return text


def parse_cache_warmup(text: str, *, may_warm_up: bool) -> str:
    """The way to warm the prompt cache; empty for none. Raises InvalidValue."""
    if text and not may_warm_up:
        raise InvalidValue(gettext("The prompt cache can only be warmed up for several agents."))
    return CACHE_WARMUP.parse(text) if text else ""


def one_of(choices: Iterable[Chosen]) -> Callable[[str], Chosen]:
    """A parser that returns one of these texts. It raises InvalidValue."""
    found = {str(choice): choice for choice in choices}

    def parse(text: str) -> Chosen:
        if text in found:
            return found[text]
        raise InvalidValue(gettext("Choose one of these: %(choices)s.") % {"choices": ", ".join(found)})

    return parse


def parse_models(text: str) -> tuple[str, ...]:
    """The models to which a call is sent, each once. Commas or lines separate them. Raises InvalidValue."""
    names = (name.strip() for line in text.splitlines() for name in line.split(","))
    return tuple(dict.fromkeys(parse_model(name) for name in names if name))


def parse_offered_tools(text: str) -> list[dict[str, Any]]:
    """The tools that a model may request. Raises InvalidInput and InvalidValue."""
    tools = parse_json(text) if text.strip() else []
    if not isinstance(tools, list) or not all(isinstance(one, dict) and _is_tool(one) for one in tools):
        raise InvalidValue(
            gettext('Tools are a JSON list, such as [{"name": "…", "description": "…", "schema": {}}].')
        )
    return tools


def _is_tool(tool: Mapping[str, Any]) -> bool:
    schema, text = tool.get("schema"), tool.get("description", "")
    has_name = isinstance(tool.get("name"), str) and bool(tool["name"])
    return has_name and isinstance(text, str) and (schema is None or isinstance(schema, dict))


def parse_parameters(text: str) -> dict[str, Any]:
    """The parameters of a model call. Raises InvalidInput and InvalidValue.

    Others, such as an address, would send the project's key elsewhere.
    """
    parameters = parse_object(text) if text.strip() else {}
    if unknown := [name for name in parameters if name not in REPLAY_PARAMETERS]:
        raise InvalidValue(
            gettext("%(name)s cannot be set for a replay. These can: %(names)s.")
            % {"name": unknown[0], "names": ", ".join(REPLAY_PARAMETERS)}
        )
    return parameters


# The models of a checkpoint's agents.


def agent_roles(contents: Contents) -> list[str]:
    """The roles of the checkpoint's agents, each once."""
    return list(dict.fromkeys(agent.role for agent in contents.agents if agent.role))


def stored_models(contents: Contents) -> dict[str, str]:
    """The model of each role, after ALL_AGENTS if there are several; empty for a kind without models."""
    if not kind_of(engine_of(contents), contents.kind).has_models:
        return {}
    models = {agent.role: agent.model for agent in reversed(contents.agents) if agent.role}
    stored = {role: models[role] for role in agent_roles(contents)}
    return {ALL_AGENTS: "", **stored} if len(stored) > 1 else stored


def named_role(role: str, stored: Mapping[str, str]) -> str:
    """The role, or that of all agents if none is named."""
    return role.strip() or next(iter(stored), ALL_AGENTS)


def changed_models(models: Mapping[str, str | None], stored: Mapping[str, str]) -> dict[str, str]:
    """The models that differ from the stored ones, by role."""
    return {role: model for role, model in models.items() if model and model != stored.get(role)}


def can_warm_cache(contents: Contents) -> bool:
    """Whether a run from this checkpoint can warm the prompt cache."""
    kind = kind_of(engine_of(contents), contents.kind)
    return kind.can_warm_cache and len(agent_roles(contents)) >= MIN_AGENTS_TO_WARM_UP


# The options.


# The text of an argument that is parsed later, together with a checkpoint.
AS_TYPED = OptionType("text", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[Parsed]):
    """An option: ``name`` and ``help`` as in the terminal, ``label`` as in a form.

    ``parse`` returns the value of a text, or raises InvalidInput or InvalidValue. An argument whose text is
    more than the value, such as KEY=VALUE, has a ``notation``. An option without ``metavar`` and ``choices``
    is on or off.
    """

    name: str
    help: str | Promise
    parse: Callable[[Any], Parsed]
    metavar: str = ""
    notation: OptionType | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None
    is_list: bool = False
    label: Any = ""
    # As ``OptionType.kind``.
    kind: str = "text"


def _texts(name: str, metavar: str, help_text: Promise | str, notation: OptionType = PAIR) -> Option[str]:
    """An option that is given several times, and whose texts are parsed together with a checkpoint."""
    return Option(name=name, metavar=metavar, help=help_text, notation=notation, parse=str, is_list=True)


def _text(
    name: str, metavar: str, help_text: Promise | str, notation: OptionType | None = None, label: Any = ""
) -> Option[str]:
    return Option(
        name=name, metavar=metavar, help=help_text, notation=notation, parse=parse_name, label=label
    )


def _choice(
    name: str, help_text: Promise, choices: Iterable[str], default: str | None = None, label: Any = ""
) -> Option[str]:
    choices = tuple(choices)
    return Option(
        name=name,
        help=help_text,
        choices=choices,
        default=default,
        parse=one_of(choices),
        label=label,
        kind="choice",
    )


def _switch(name: str, help_text: Promise | str) -> Option[bool]:
    return Option(name=name, help=help_text, parse=bool)


AT = Option(
    name="at",
    metavar="TIME",
    label=_("Start"),
    help=_("The start time, as an ISO time; in the server's time zone unless it names one."),
    parse=parse_start_time,
)
LIMIT = _texts(
    "limit",
    "MEASURE=NUMBER",
    _("Stop at this many tokens, seconds or steps (finished tasks or methods): tokens=20000."),
)
# The fields of a form's limits.
LIMIT_LABELS = {"tokens": _("Tokens"), "seconds": _("Minutes"), "steps": _("Steps")}
QUEUE = _switch("queue", _("If the location's host is away, queue the start until it is back."))
SCHEDULE = (AT, LIMIT, QUEUE)

EVENTS = _text(
    "events",
    "A,B",
    _("The engine's events at which it writes a checkpoint; * for all."),
    OptionType("text", parse_name),
    _("Checkpoints at"),
)
KEEP_LATEST = Option(
    name="max-checkpoints",
    metavar="N",
    label=_("Keep latest"),
    help=_("Keep only the latest N of the checkpoints that this run writes."),
    parse=count_up_to(MAX_KEPT_CHECKPOINTS),
    kind="number",
)
CHECKPOINTS = (EVENTS, KEEP_LATEST)

MODEL = Option(
    name="model",
    metavar="[ROLE=]MODEL",
    label=_("Model"),
    help=_("Another model, for an agent's role or for all."),
    notation=AS_TYPED,
    parse=parse_model,
    is_list=True,
)
CACHE_WARMUP = _choice(
    "cache-warmup",
    _("Warm up the model provider's prompt cache before the first call."),
    STRATEGIES,
    label=_("Prompt cache"),
)
SWEEP_CACHE_WARMUP = _choice(
    "cache-warmup", _("Warm up the model provider's prompt cache once, for all branches."), STRATEGIES
)

STOP_BEFORE = Option(
    name="stop-before",
    metavar="NODE",
    label=_("Stop before"),
    help=_("LangGraph: stop before this node; * is every node."),
    notation=AS_TYPED,
    parse=parse_units,
    is_list=True,
)
STOP_AFTER = Option(
    name="stop-after",
    metavar="NODE",
    label=_("Stop after"),
    help=_("LangGraph: stop after this node; * is every node."),
    notation=AS_TYPED,
    parse=parse_units,
    is_list=True,
)
CONFIGURABLE = _texts("configurable", "KEY=JSON|@FILE", _("LangGraph: a value of the config's configurable."))
CONTEXT = _texts("context", "KEY=JSON|@FILE", _("LangGraph 0.6 and newer: a value of the runtime's context."))
SETTINGS = (STOP_BEFORE, STOP_AFTER, CONFIGURABLE, CONTEXT)

BRANCH = _text(
    "branch", "NAME", _("The new branch; by default it is named for its edits."), label=_("Branch")
)
BRANCH_PREFIX = _text("branch", "PREFIX", _("The prefix of the branch names."))
INTO = _choice(
    "into",
    _("LangGraph: where the fork is written once it has ended. “thread” moves the thread's head."),
    (SCRATCH, "new-thread", "thread"),
    SCRATCH,
    _("When it has ended"),
)
ON = _text(
    "on", "HOST:LOCATION", _("Run on another host that has the project, and write to its location."), AS_TYPED
)
ACCEPT_CODE = _switch("accept-code", _("Run on another host although its code differs, or may differ."))
PUBLISH_INTO = _choice(
    "into",
    _("A new thread, or the one that was forked: this moves its head."),
    ("new-thread", "thread"),
    "new-thread",
)
NEW_THREAD_NAME = _text("thread", "NAME", _("The name of the new thread; by default the fork's id."))
THREAD = _text("thread", "ID", _("LangGraph: the thread to continue; else a new one."))

AS_NODE = _text(
    "as-node", "NODE", _("LangGraph: the node that --state is attributed to."), label=_("As node")
)
EDITS = (
    _texts("input", "KEY=JSON", _("A kickoff input.")),
    _texts("output", "TASK=TEXT|@FILE", _("A finished task's output. TASK is its id, or its number from 1.")),
    _text("state", "JSON|@FILE", _("Fields of the state."), AS_TYPED),
    _texts(
        "message",
        "CHANNEL=JSON|@FILE",
        _(
            'LangGraph: an edit of a message, or a list of them: {"edit": 2, "content": "…"}, '
            '{"remove": 2} or {"add": "user", "content": "…", "before": 2}. 2 is a position from 1, or an id '
            "of a message."
        ),
    ),
    _texts(
        "replace",
        "CHANNEL",
        _("LangGraph: --state replaces this channel's value; else a reducer adds to it."),
        AS_TYPED,
    ),
    AS_NODE,
    _texts(
        "answer",
        "JSON|ID=JSON",
        _("The answer to what the checkpoint waits for, by its id if several wait."),
        AS_TYPED,
    ),
    _texts("again", "TASK", _("Run it again."), AS_TYPED),
    _texts("keep", "TASK", _("Do not run it again."), AS_TYPED),
)
INPUTS = (
    _texts("input", "KEY=JSON", _("An input. A standalone agent has one: messages.")),
    _text("state", "JSON|@FILE", _("The initial state, as one JSON object."), AS_TYPED),
)

ACCEPT_LOSSES = _switch("accept-losses", _("Start even if components would be lost."))
ACCEPTANCE = (
    ACCEPT_LOSSES,
    _switch("accept-effects", _("Accept the checkpoint's effects for the project.")),
    _switch("accept-hidden", _("Send the redacted parts of a pruned checkpoint's stored copy as they are.")),
    _texts(
        "match",
        "SAVED=TASKNUMBER",
        _(
            "The project's task for a stored task without a certain match; - if it was removed. SAVED is its "
            "number from 1 or its id; for an agent, its id, followed by the project's role."
        ),
    ),
)

DIMENSIONS = (
    _texts("vary", "KEY=JSON-LIST", _("The values of an input, or of an entry of the state.")),
    _texts("vary-answer", "[ID=]JSON-LIST", _("The answers to what the checkpoint waits for."), AS_TYPED),
    _texts("vary-configurable", "KEY=JSON-LIST", _("LangGraph: the values of a configurable.")),
    _texts("vary-context", "KEY=JSON-LIST", _("LangGraph: the values of an entry of the context.")),
    _texts("vary-output", "TASK=TEXT|@FILE", _("One variation of a finished task's output.")),
    _texts("vary-model", "[ROLE=]A,B", _("The models of an agent's role, or of all."), AS_TYPED),
    _texts("as-it-is", "TASK", _("The stored output of this task is a variation as well."), AS_TYPED),
)
SWEEP_AS_NODE = _text("as-node", "NODE", _("LangGraph: the node that a varied state is attributed to."))
SCORE = Option(
    name="score",
    metavar="module:function",
    help=_("A function of the project that scores the end result of each branch, once."),
    parse=parse_function,
    label=_("Score"),
)
TOOL = Option(
    name="tool",
    metavar="NAME=CHOICE",
    help=_(
        "What happens when the run calls this tool: call, ask (a person each time), recorded (answer with "
        "the recorded result) or refuse. By default, ask for a tool whose recorded call would be repeated."
    ),
    notation=PAIR,
    parse=one_of(ToolChoice),
    is_list=True,
)
DRY_RUN = _switch("dry-run", _("Call no tool: answer with the recorded result of the same call, or refuse."))
MODEL_CALLS = Option(
    name="model-calls",
    help=_(
        "A dry run that calls no model either: recorded answers to the same messages, or in-order, the next "
        "recorded answer to others. A call without an answer stops the run."
    ),
    choices=tuple(choice.value for choice in ModelChoice),
    default=ModelChoice.CALL,
    parse=one_of(ModelChoice),
    label=_("Model calls"),
    kind="choice",
)
TOOLS = (TOOL, DRY_RUN, MODEL_CALLS)
# The code in the project's folder, or the commit that was recorded with the checkpoint.
PRESENT, RECORDED = "now", "recorded"
CODE = _choice(
    "code",
    _("The code that runs: the project's folder as it is now, or the commit recorded with the checkpoint."),
    (PRESENT, RECORDED),
    PRESENT,
    _("Code"),
)
AGAIN_STALE = _switch("again-stale", _("Run units with stale outputs again."))

REPLAY_MODELS = Option(
    name="models",
    metavar="A,B",
    label=_("Models"),
    help=_("The models to which the call is sent; by default the recorded one."),
    notation=AS_TYPED,
    parse=parse_models,
)
TIMES = Option(
    name="times",
    metavar="N",
    label=_("Times"),
    help=_("How often each model is called."),
    parse=count_up_to(MAX_REPLAYED_CALLS),
    kind="number",
)
REPLAY_TOOLS = Option(
    name="tools",
    metavar="JSON|@FILE",
    label=_("Tools"),
    help=_("The tools that are offered, as a JSON list. Requested calls are shown, never executed."),
    notation=AS_TYPED,
    parse=parse_offered_tools,
)
PARAMETERS = Option(
    name="parameters",
    metavar="JSON|@FILE",
    label=_("Parameters"),
    help=_("The parameters of the call, such as temperature, as a JSON object."),
    notation=AS_TYPED,
    parse=parse_parameters,
)
REPLAY_MESSAGE = _texts(
    "message",
    "JSON|@FILE",
    _(
        'An edit of a message, or a list of them: {"edit": 2, "content": "…"}, {"remove": 2} or '
        '{"add": "user", "content": "…", "before": 2}. 2 is a position from 1.'
    ),
    AS_TYPED,
)
REPLAY_OPTIONS = (REPLAY_MODELS, TIMES, REPLAY_MESSAGE, REPLAY_TOOLS, PARAMETERS)
