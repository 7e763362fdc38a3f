"""What the pure rooms decide, in words: what the forms, the pages and the terminal say."""

from django.utils.functional import Promise
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from viewer.jobs.plan import Action, Reason, Step
from viewer.words import Worded

ACTIONS: dict[Action, str | Promise] = {
    Action.KEPT: _("kept"),
    Action.EDITED: _("edited"),
    Action.PINNED: _("held"),
    Action.AGAIN: _("runs again"),
    Action.RUNS: _("runs"),
}
# Signs say the same as the words beside them, and are hidden from readers that speak.
SIGNS = {Action.KEPT: "✓", Action.EDITED: "✎", Action.PINNED: "⚲", Action.AGAIN: "↻", Action.RUNS: "▸"}
REASONS: dict[Reason, str | Promise] = {
    Reason.FINISHED: _("finished; its output is used as it is"),
    Reason.UNFINISHED: _("has not run yet"),
    Reason.EDITED: _("your text is used as its output"),
    Reason.HELD: _("you keep its output; it is not run again"),
    Reason.READS_EDITED: _("reads what you changed"),
    Reason.BEHIND_RERUN: _("comes after a task that runs again"),
    Reason.ASKED: _("you asked for it"),
    Reason.STALE_INPUT: _("its text was made with an input that changed"),
}


def told(error: Worded) -> str:
    """What went wrong and what to do, translated."""
    return gettext(error.text) % error.values


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
