"""The part of a fork or resume page for the answers to what the checkpoint waits for."""

from dataclasses import dataclass
from typing import Any

from django.forms import BoundField

from viewer.engines.editable import Editable, OpenQuestion
from viewer.forms.launch.answers import AnswersForm
from viewer.presentation.launch.edit_parts import first_error


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One question with what was typed."""

    question: OpenQuestion
    answer: BoundField
    choice: BoundField
    type: BoundField

    @property
    def html_id(self) -> str:
        return self.answer.id_for_label

    @property
    def error(self) -> str:
        return first_error(self.answer)

    @property
    def chosen(self) -> str:
        return str(self.choice.value() or "")

    @property
    def is_typed(self) -> bool:
        """Whether the field for another answer than the choices starts open."""
        return bool(self.answer.value()) or not self.question.choices or bool(self.error)

    @property
    def sweep_name(self) -> str:
        """The name of the field of a sweep's form that varies this answer."""
        return f"vary-answer:{self.question.id}"

    @property
    def all_choices(self) -> str:
        """Every choice, one per line, as a sweep's form expects them."""
        return "\n".join(self.question.choices)


@dataclass(frozen=True, slots=True)
class AnswersPart:
    """The questions, at least one."""

    form: AnswersForm

    @property
    def views(self) -> list[AnswerView]:
        form = self.form
        return [
            AnswerView(question, form[f"answer:{number}"], form[f"choice:{number}"], form[f"type:{number}"])
            for number, question in enumerate(form.questions)
        ]


def answers_part(data: Any, edited: Editable) -> AnswersPart | None:
    """The part, first shown if ``data`` is None; None if nothing waits."""
    return AnswersPart(AnswersForm(data, edited.questions)) if edited.questions else None
