"""Labels of what packages without Django decide, for forms, pages and the terminal."""

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import all_engines
from viewer.engines.entry_points import Component, PreflightLabels
from viewer.engines.plan import Action, Decision, Reason, Step
from viewer.engines.recorded_calls import ModelChoice, ToolChoice

ACTIONS: dict[Action, str | Promise] = {
    Action.KEPT: _("reused"),
    Action.EDITED: _("edited"),
    Action.PINNED: _("held"),
    Action.AGAIN: _("runs again"),
    Action.RUNS: _("runs"),
    Action.MAY: _("may run"),
}
# Signs repeat the label next to them, and are hidden from screen readers.
SIGNS = {
    Action.KEPT: "✓",
    Action.EDITED: "✎",
    Action.PINNED: "⚲",
    Action.AGAIN: "↻",
    Action.RUNS: "▸",
    Action.MAY: "▹",
}
REASONS: dict[Reason, str | Promise] = {
    Reason.FINISHED: _("finished"),
    Reason.UNFINISHED: _("has not run yet"),
    Reason.PASSED_OVER: _("skipped, or still running, when later units had finished"),
    Reason.CONDITION: _("depends on its condition"),
    Reason.EDITED: _("your text is used as its output"),
    Reason.HELD: _("its output is reused; it does not run again"),
    Reason.READS_EDITED: _("reads what you changed"),
    Reason.BEHIND_RERUN: _("comes after a unit that runs again"),
    Reason.REQUESTED: _("you asked for it"),
    Reason.STALE_INPUT: _("its output was produced with an input that changed"),
    Reason.TRIGGERED: _("a finished unit triggers it again"),
    Reason.MAY_REPEAT: _("finished; runs again if a router leads back to it"),
    Reason.ROUTED: _("depends on a router"),
    Reason.RUNS_AGAIN: _("had finished; runs again"),
    Reason.STARTS_OVER: _("the run starts over with this state"),
}


def action_label(action: str) -> str:
    """One word for what happens to a step, translated; the code itself where it is a newer one."""
    return str(ACTIONS[Action(action)]) if action in set(Action) else action


def action_sign(action: str) -> str:
    """One character for what happens to a step."""
    return SIGNS[Action(action)] if action in set(Action) else "·"


def reason_label(reason: str) -> str:
    """Why it happens, translated; the code itself where it is a newer one."""
    return str(REASONS[Reason(reason)]) if reason in set(Reason) else reason


def stale_text(names: tuple[str, ...] | list[str]) -> str:
    """Which changed inputs a kept text was made with; empty where none."""
    if not names:
        return ""
    text = ngettext(
        "its output was produced with the former %(names)s",
        "its output was produced with the former %(names)s",
        len(names),
    )
    return text % {"names": get_text_list(list(names), gettext("and"))}


# What happens when a run calls a tool.
TOOL_CHOICES: dict[ToolChoice, str | Promise] = {
    ToolChoice.CALL: _("Call"),
    ToolChoice.ASK: _("Ask each time"),
    ToolChoice.RECORDED: _("Answer with the recorded result"),
    ToolChoice.REFUSE: _("Refuse"),
}


MODEL_CHOICES: dict[ModelChoice, str | Promise] = {
    ModelChoice.CALL: _("Call the models"),
    ModelChoice.RECORDED: _("Recorded answer to the same messages"),
    ModelChoice.IN_ORDER: _("Recorded answers in order"),
}


def tool_choice_label(choice: str) -> str:
    """What happens to a call of a tool, translated; the code itself where it is a newer one."""
    return str(TOOL_CHOICES[ToolChoice(choice)]) if choice in set(ToolChoice) else choice


def step_text(step: Step) -> str:
    """A whole line for the terminal: position, title, what happens and why."""
    reasons = "; ".join(filter(None, [reason_label(step.reason), stale_text(step.stale)]))
    return f"{step.position}. {step.title}: {action_label(step.action)} ({reasons})"


def decision_text(turn: Decision) -> str:
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


def component_label(labels: PreflightLabels, part: Component) -> str:
    """Return the label of a component: its kind, its name, and what it belongs to."""
    what = labels.components.get(part.what)
    return _of_unit(labels, part, f"{gettext(what) if what else part.what} {part.name}".strip())


def loss_label(labels: PreflightLabels, part: Component) -> str:
    """Return what the run would lack."""
    loss = labels.losses.get(part.what)
    if not loss:
        return component_label(labels, part)
    return _of_unit(labels, part, gettext(loss) % {"name": part.name})


def _of_unit(labels: PreflightLabels, part: Component, text: str) -> str:
    if part.unit:
        return gettext(labels.of_unit) % {"position": part.unit, "text": text}
    return f"{part.agent}: {text}" if part.agent else text


def match_texts(labels: PreflightLabels, question: Mapping[str, Any]) -> tuple[str, str, str]:
    """Of a stored component to be matched: its label, why it is asked, and the choice that it is gone."""
    label, why = labels.matches.get(question["kind"]), labels.match_reasons.get(question["reason"])
    values = {"position": question["position"], "title": question["title"]}
    shown = gettext(label) % values if label else str(question["title"])
    return shown, gettext(why) if why else "", gettext("no longer in the project")


def note_text(labels: PreflightLabels, note: Mapping[str, Any]) -> str:
    """Return a note of a preflight check."""
    text, detail = labels.notes.get(str(note.get("what"))), str(note.get("detail", ""))
    return gettext(text) % {"detail": detail or gettext("nothing")} if text else detail


def asker_label(context: Mapping[str, Any]) -> str:
    """Return who asks a question: a unit and its agent, or the run."""
    labels = {name: label for one in all_engines() for name, label in one.asker_labels.items()}
    name = next((name for name in labels if context.get(name)), "")
    unit = gettext(labels[name]) % {"value": context[name]} if name else ""
    agent = str(context.get("agent") or "")
    return ", ".join(filter(None, [unit, agent])) or gettext("The run")
