"""A look's findings as they are shown in a form, and what a person answers to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from django.utils.translation import gettext as _

from viewer.forms.fields import Sent
from viewer.forms.fork import FormError
from viewer.jobs.spool import Options
from viewer.messages.labels import loss_words, part_words, question_words, told
from viewer.messages.message import words_from
from viewer.models import AcceptedEffect, PreflightCheck

ACCEPTED = "accepted"
# The buttons of the preflight check: start it, and accept the effects that it listed.
CHECK = "check"
ACCEPT_EFFECTS = "accept-effects"
# The answer that a saved task or agent is not in the project any more (see Options in spool.py).
GONE = "-"
MOST_NAME = 120


@dataclass(slots=True)
class Choice:
    value: str
    words: str
    is_chosen: bool = False


@dataclass(slots=True)
class ShownQuestion:
    """Which of the project's own a saved task or agent is."""

    kind: str
    saved: str
    html_name: str
    html_id: str
    label: str
    why: str
    choices: list[Choice]
    answer: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ShownEffect:
    """``kind`` is shown before ``name``; ``detail`` says what of the checkpoint asks for it."""

    kind: str
    name: str
    detail: str


@dataclass(slots=True)
class ShownLook:
    """``accepted`` says whether a person agrees to what is shown: to these losses, or to not knowing."""

    look: PreflightCheck
    questions: list[ShownQuestion] = field(default_factory=list)
    # What would be lost: the name it is accepted by, and words.
    losses: dict[str, str] = field(default_factory=dict)
    restored: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    accepted: bool = False
    # What the checkpoint adds to the project's own code: not accepted yet, and accepted.
    new_effects: list[ShownEffect] = field(default_factory=list)
    accepted_effects: list[ShownEffect] = field(default_factory=list)
    effects_mark: str = ""

    @property
    def is_unchecked(self) -> bool:
        """Whether a person has to start the preflight check."""
        return self.look.status == PreflightCheck.Status.UNCHECKED or self.look.is_outdated

    @property
    def is_known(self) -> bool:
        """Whether it is known what the run would have and lack: the check went beyond the effects."""
        return self.look.is_done and self.report.get("is_complete", True)

    @property
    def is_under_way(self) -> bool:
        return not (self.look.has_ended or self.is_unchecked)

    @property
    def has_failed(self) -> bool:
        return self.look.status == PreflightCheck.Status.FAILED

    @property
    def report(self) -> Mapping[str, Any]:
        """What the child found (see viewer/jobs/preflight/checks.py); empty where it has not, or failed."""
        return dict(self.look.report)

    @property
    def blocks(self) -> list[str]:
        """Why nothing can start, whatever is accepted."""
        blocks, words = (self.report.get(name) or [] for name in ("blocks", "block_words"))
        told_beside = zip_longest(blocks, words[: len(blocks)])
        return [told(words_from(plain, str(english))) for english, plain in told_beside]

    @property
    def notes(self) -> list[str]:
        """What else a person should know."""
        return [_note(note) for note in self.report.get("notes") or []]

    @property
    def is_of_new_run(self) -> bool:
        return self.look.is_of_new_run

    @property
    def needs_acceptance(self) -> bool:
        """Whether a person has to agree before it starts. What begins has nothing yet that it could lose."""
        if self.is_of_new_run or self.is_unchecked or self.new_effects:
            return False
        return bool(self.losses) or not self.is_known

    @property
    def mark(self) -> str:
        """What accepting refers to: these losses of this look, or that they are not known."""
        seen = ["known", *sorted(self.losses)] if self.is_known else ["unknown"]
        return sha256("\n".join([self.look.fingerprint, *seen]).encode()).hexdigest()[:16]

    @property
    def errors(self) -> list[FormError]:
        """What has to be answered before anything starts."""
        found = [FormError(one.html_id, one.label, one.error) for one in self.questions if one.error]
        if self.new_effects:
            message = _("the checkpoint has effects that nobody has accepted for this project")
            return [*found, FormError("accept-effects", _("Effects"), message)]
        if self.is_unchecked and not self.is_of_new_run:
            return [*found, FormError("check", _("Preflight check"), _("run it first"))]
        if not self.needs_acceptance or self.accepted:
            return found
        if self.is_known:
            message = _("something is lost: agree to it, or name the code that has it under “Starts with”")
        elif self.is_under_way:
            message = _("the preflight check is not finished: wait for it, or agree to start without it")
        else:
            message = _("what is lost is not known: agree to start all the same")
        return [*found, FormError("accepted", _("Before it starts"), message)]

    @property
    def options(self) -> Options:
        """What the child is told of the answers. Without an agreement it starts nothing that loses."""
        answers = {one.saved: one.answer for one in self.questions if one.answer}
        agreed = (sorted(self.losses) if self.is_known else ["*"]) if self.accepted else []
        options = Options(accepted=agreed)
        return {**options, "matches": answers} if answers else options


def shown_look(look: PreflightCheck, sent: Sent) -> ShownLook:
    """The look with what was sent of it; None: the form is shown for the first time."""
    new = look.new_effects
    shown = ShownLook(look, effects_mark=mark_of_effects(look))
    questions = look.report.get("questions") or []
    for number, question in enumerate(questions, 1):
        shown.questions.append(_question(number, question, sent))
    for part in look.report.get("components") or []:
        if part["fate"] == "lost":
            shown.losses[loss_name(part)] = loss_words(part)
        else:
            (shown.own if part["fate"] == "project" else shown.restored).append(part_words(part))
    for effect in look.effects:
        is_new = any(effect["key"] == one["key"] for one in new)
        (shown.new_effects if is_new else shown.accepted_effects).append(_effect(effect))
    _refuse_doubles(shown.questions)
    for part in _left_out(questions, shown.questions):
        shown.losses[loss_name(part)] = loss_words(part)
    shown.accepted = sent is not None and sent.get(ACCEPTED) == shown.mark
    return shown


def mark_of_effects(look: PreflightCheck) -> str:
    """What accepting effects refers to: those of this check that nobody has accepted yet."""
    keys = sorted(effect["key"] for effect in look.new_effects)
    return sha256("\n".join([look.fingerprint, *keys]).encode()).hexdigest()[:16]


def accepts_effects(look: PreflightCheck, sent: Sent) -> bool:
    """Whether the form that was sent accepts the effects of this check, as they are now."""
    return bool(look.new_effects) and sent is not None and sent.get(ACCEPT_EFFECTS) == mark_of_effects(look)


def _effect(effect: Mapping[str, Any]) -> ShownEffect:
    kind = str(effect["kind"])
    known = dict(AcceptedEffect.Kind.choices)
    return ShownEffect(str(known.get(kind, kind)), str(effect["name"]), str(effect.get("detail") or ""))


def loss_name(part: Mapping[str, Any]) -> str:
    """What a loss is accepted by: the child names it the same (forkline_crewai/parts.py)."""
    where = f"task {part['task']}" if part["task"] else part["agent"]
    return "/".join(str(text) for text in (part["what"], where, part["name"]) if text)


def _question(number: int, question: Mapping[str, Any], sent: Sent) -> ShownQuestion:
    label, why, gone = question_words(question)
    name = f"match:{question['saved']}"
    answer = "" if sent is None else sent.get(name, "")
    choices = [
        Choice(value, gone if value == GONE else _choice(question["kind"], value, title), value == answer)
        for value, title in question["choices"]
    ]
    shown = ShownQuestion(question["kind"], question["saved"], name, f"match-{number}", label, why, choices)
    if any(choice.is_chosen for choice in choices):
        shown.answer = answer
    else:
        shown.error = _("choose which one it is")
    return shown


def _choice(kind: str, value: str, title: str) -> str:
    return f"{value}. {title}" if kind == "task" else title


def _refuse_doubles(questions: Sequence[ShownQuestion]) -> None:
    """One of the project's own cannot stand for two."""
    given = [(one.kind, one.answer) for one in questions]
    for one in questions:
        if one.answer not in ("", GONE) and given.count((one.kind, one.answer)) > 1:
            one.error = _("it was chosen twice")


def _left_out(questions: Sequence[Mapping[str, Any]], shown: Sequence[ShownQuestion]) -> list[dict[str, Any]]:
    """The project's tasks that no answer has chosen: they do not run."""
    asked = [
        (question, one) for question, one in zip(questions, shown, strict=True) if question["kind"] == "task"
    ]
    if not asked or any(one.error for _question, one in asked):
        return []
    chosen = {one.answer for _question, one in asked}
    offered = {value: title for question, _one in asked for value, title in question["choices"]}
    return [
        {"what": "tasks", "name": f"{value}. {title}"[:MOST_NAME], "task": 0, "agent": "", "fate": "lost"}
        for value, title in offered.items()
        if value != GONE and value not in chosen
    ]


def _note(note: Mapping[str, Any]) -> str:
    if note.get("what") == "unwritten":
        return _(
            "By itself, this version of CrewAI writes no checkpoint of such a crew (%(detail)s). Runs that "
            "are started here do write them; what cannot be held stands there by its name."
        ) % {"detail": note.get("detail", "")}
    if note.get("what") == "untyped":
        return _(
            "The checkpoint does not keep the class of what the method %(method)s has returned: what reads "
            "it is given a dictionary. Annotate what %(method)s returns (-> ThatClass) to have it."
        ) % {"method": note.get("detail", "")}
    return str(note.get("detail", ""))
