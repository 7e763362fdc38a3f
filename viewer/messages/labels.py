"""What the pure rooms decide, in words: what the forms, the pages and the terminal say."""

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from viewer.engines.plan import Action, Reason, Step
from viewer.engines.protocol import Decision
from viewer.messages.message import Worded, Words

ACTIONS: dict[Action, str | Promise] = {
    Action.KEPT: _("kept"),
    Action.EDITED: _("edited"),
    Action.PINNED: _("held"),
    Action.AGAIN: _("runs again"),
    Action.RUNS: _("runs"),
    Action.MAY: _("may run"),
}
# Signs say the same as the words beside them, and are hidden from readers that speak.
SIGNS = {
    Action.KEPT: "✓",
    Action.EDITED: "✎",
    Action.PINNED: "⚲",
    Action.AGAIN: "↻",
    Action.RUNS: "▸",
    Action.MAY: "▹",
}
REASONS: dict[Reason, str | Promise] = {
    Reason.FINISHED: _("finished; its output is used as it is"),
    Reason.UNFINISHED: _("has not run yet"),
    Reason.PASSED_OVER: _("was passed over, or still under way, when later tasks had finished"),
    Reason.EDITED: _("your text is used as its output"),
    Reason.HELD: _("you keep its output; it is not run again"),
    Reason.READS_EDITED: _("reads what you changed"),
    Reason.BEHIND_RERUN: _("comes after a task that runs again"),
    Reason.ASKED: _("you asked for it"),
    Reason.STALE_INPUT: _("its text was made with an input that changed"),
    Reason.TRIGGERED: _("what has finished triggers it once more"),
    Reason.MAY_REPEAT: _("finished; runs again if a router leads back to it"),
    Reason.ROUTED: _("depends on a router"),
}


def told(words: Words | Exception) -> str:
    """What went wrong and what to do, translated; of an error that has no such words, its own message."""
    if isinstance(words, Worded):
        words = words.words
    return words.filled(gettext) if isinstance(words, Words) else str(words)


def action_word(action: str) -> str:
    """One word for what happens to a step, translated; the code itself where it is a newer one."""
    return str(ACTIONS[Action(action)]) if action in set(Action) else action


def action_sign(action: str) -> str:
    """One character for what happens to a step."""
    return SIGNS[Action(action)] if action in set(Action) else "·"


def reason_words(reason: str) -> str:
    """Why it happens, translated; the code itself where it is a newer one."""
    return str(REASONS[Reason(reason)]) if reason in set(Reason) else reason


def stale_words(names: tuple[str, ...] | list[str]) -> str:
    """Which changed inputs a kept text was made with; empty where none."""
    if not names:
        return ""
    text = ngettext(
        "its text was made with the former %(names)s",
        "its text was made with the former %(names)s",
        len(names),
    )
    return text % {"names": get_text_list(list(names), gettext("and"))}


def step_words(step: Step) -> str:
    """A whole line for the terminal: position, title, what happens and why."""
    reasons = "; ".join(filter(None, [reason_words(step.reason), stale_words(step.stale)]))
    return f"{step.position}. {step.title}: {action_word(step.action)} ({reasons})"


def decision_words(turn: Decision) -> str:
    """Where a decision of the run may lead, in one line."""
    nowhere = gettext("nothing follows")
    routes = "; ".join(f"{route.label} → {', '.join(route.units) or nowhere}" for route in turn.routes)
    if not routes:
        text = gettext("Then, depending on the router %(router)s: the code does not say what it returns.")
        return text % {"router": turn.router}
    if turn.is_open:
        text = gettext("Then, depending on the router %(router)s, as far as the code says: %(routes)s.")
    else:
        text = gettext("Then, depending on the router %(router)s: %(routes)s.")
    return text % {"router": turn.router, "routes": routes}


# What a look finds (see viewer/jobs/preflight/checks.py), as one thing of its kind.
PARTS: dict[str, str | Promise] = {
    "tools": _("tool"),
    "models": _("model"),
    "callbacks": _("callback"),
    "guardrails": _("guardrail"),
    "MCP servers": _("MCP server"),
    "platform apps": _("platform app"),
    "knowledge": _("knowledge"),
    "memory": _("memory"),
    "skills": _("skill"),
    "output files": _("output file"),
    "input files": _("input file"),
    "training files": _("training file"),
    "links": _("link to other tasks"),
    "conditions": _("condition"),
    "methods": _("method"),
    "tasks": _("task"),
}
# Losses that have to be told in a whole sentence.
LOSSES: dict[str, str | Promise] = {
    "unseen": _(
        "guardrails, callbacks and conditions that are functions: a checkpoint does not keep whether there "
        "were any"
    ),
    "models": _("the project's own class of the model %(name)s: a plain model of this name answers instead"),
    "links": _("which tasks it reads: it is given all before it"),
    "conditions": _("the condition for which it was passed over"),
    "tasks": _("the project's task %(name)s does not run: the checkpoint does not have it"),
    "providers": _(
        "the model %(name)s: its provider's package is not installed in the project's environment"
    ),
    "methods": _("the finished method %(name)s: the flow's class does not have it any more"),
}
QUESTIONS: dict[str, str | Promise] = {
    "changed": _("nothing in the project has these words"),
    "twice": _("several in the project have these words"),
    "role": _("another agent does it in the project"),
    "order": _("it stands at another place in the project"),
}


def part_words(part: Mapping[str, Any]) -> str:
    """A part of a run in a few words: what it is, its name, and where it belongs."""
    what = PARTS.get(part["what"])
    return _at(part, f"{what or part['what']} {part['name']}".strip())


def loss_words(part: Mapping[str, Any]) -> str:
    """What the run would go on without, in words."""
    if part["what"] in LOSSES:
        return _at(part, str(LOSSES[part["what"]]) % {"name": part["name"]})
    return part_words(part)


def question_words(question: Mapping[str, Any]) -> tuple[str, str, str]:
    """Of a saved task or agent that is asked for: its label, why, and the choice that it is gone."""
    values = {"position": question["position"], "title": question["title"]}
    if question["kind"] == "agent":
        label = gettext("The checkpoint's agent “%(title)s” is") % values
    else:
        label = gettext("The checkpoint's task %(position)d, “%(title)s”, is") % values
    why = str(QUESTIONS.get(question["reason"], ""))
    return label, why, gettext("not in the project any more")


def _at(part: Mapping[str, Any], words: str) -> str:
    if part["task"]:
        return gettext("task %(position)d: %(words)s") % {"position": part["task"], "words": words}
    return f"{part['agent']}: {words}" if part["agent"] else words
