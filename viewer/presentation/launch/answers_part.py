"""Questions of a checkpoint or run with their answers, as a page shows them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField

from viewer.engines import engine_of
from viewer.engines.planning.editable import AnswerField, AnswerOption, Editable, OpenQuestion
from viewer.engines.protocol import Contents
from viewer.forms.launch.answers import AnswersForm, choice_texts, part_name
from viewer.importing import branch_status
from viewer.models import Checkpoint, Question, Run
from viewer.presentation.launch.edit_parts import FieldView


@dataclass(frozen=True, slots=True)
class PartView(FieldView):
    """A field of an option with its typed value."""

    part: AnswerField

    @property
    def text(self) -> str:
        return str(self.bound.value() or "")

    @property
    def choices(self) -> list[str]:
        return choice_texts(self.part)

    @property
    def row_count(self) -> int:
        """The number of text lines of its field."""
        return min(max(self.text.count("\n") + 1, len(self.text) // 60 + 1), 8)


@dataclass(frozen=True, slots=True)
class OptionView:
    """An option with its fields."""

    option: AnswerOption
    parts: list[PartView]

    @property
    def sent(self) -> str:
        """The value that is sent; empty if the label is the same."""
        if self.parts or self.option.value == self.option.label:
            return ""
        return json.dumps(self.option.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AnswerView(FieldView):
    """One question with its typed answer."""

    question: OpenQuestion
    choice: BoundField
    type: BoundField
    options: list[OptionView]

    @property
    def chosen(self) -> str:
        return str(self.choice.value() or "")

    @property
    def asks_later(self) -> bool:
        """Whether a person chose to give no answer now."""
        return bool(self.choice.data == "")

    @property
    def given(self) -> str:
        """What was typed or chosen."""
        return str(self.bound.value() or "").strip() or self.chosen

    @property
    def is_typed(self) -> bool:
        """Whether the field for a free answer is initially open."""
        return bool(self.bound.value()) or not self.question.options or bool(self.error)

    @property
    def sweep_name(self) -> str:
        """The name of the field that varies this answer in a sweep's form."""
        return f"vary-answer:{self.question.id}"

    @property
    def complete(self) -> list[OptionView]:
        """The options without fields, which are complete answers."""
        return [one for one in self.options if one.option.is_complete]

    @property
    def plain(self) -> list[OptionView]:
        return [one for one in self.options if not one.parts]

    @property
    def with_fields(self) -> list[OptionView]:
        return [one for one in self.options if one.parts]

    @property
    def all_choices(self) -> str:
        """The options without fields, one per line, in the format of a sweep's form."""
        values = [one.option.value for one in self.complete]
        lines = [_line(value) for value in values]
        # A text that begins with a bracket is parsed as a list of all values.
        return json.dumps(values) if lines and lines[0].startswith("[") else "\n".join(lines)


def _line(value: Any) -> str:
    """The value as a line of a sweep's form: a text unchanged, unless it would be parsed as another value."""
    if isinstance(value, str) and value and value == " ".join(value.split()) and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class AnswersPart:
    """The questions, at least one."""

    form: AnswersForm

    @property
    def views(self) -> list[AnswerView]:
        form = self.form
        return [
            AnswerView(
                form[f"answer:{number}"],
                question,
                form[f"choice:{number}"],
                form[f"type:{number}"],
                [
                    OptionView(option, self._parts(number, position, option))
                    for position, option in enumerate(question.options)
                ],
            )
            for number, question in enumerate(form.questions)
        ]

    @property
    def text(self) -> str | None:
        """The answer to the only question, in the runner's format; None if it was not answered."""
        answers = self.form.answers
        if not self.form.is_valid() or not answers:
            return None
        (answer,) = answers.values()
        return answer if isinstance(answer, str) and not _is_json(answer) else json.dumps(answer)

    def _parts(self, number: int, position: int, option: AnswerOption) -> list[PartView]:
        names = (part_name(number, position, field) for field in range(len(option.fields)))
        return [PartView(self.form[name], part) for part, name in zip(option.fields, names, strict=True)]


def asked_part(question: Question, data: Any = None) -> AnswersPart | None:
    """The part for a question of a run; None if its engine suggests no answers."""
    if question.kind != Question.Kind.INTERRUPT:
        return None
    engine = engine_of(question.job.location)
    asked = engine.asked_question(question.prompt, question.context)
    return AnswersPart(AnswersForm(data, [asked])) if asked else None


def answers_part(
    data: Any, edited: Editable, must_choose: bool, chosen: Mapping[str, str] | None = None
) -> AnswersPart | None:
    """The part, in its initial state if ``data`` is None. Returns None if nothing waits for an answer.

    ``chosen`` are the options that the link to the page named, by the field.
    """
    if not edited.questions:
        return None
    if data is None and chosen:
        part = AnswersPart(AnswersForm(chosen, edited.questions))
        # An option with fields is not an error before anything was typed.
        return (
            part if part.form.is_valid() else AnswersPart(AnswersForm(None, edited.questions, initial=chosen))
        )
    return AnswersPart(AnswersForm(data, edited.questions, must_choose))


def asked_at(checkpoint: Checkpoint, contents: Contents) -> AnswersPart | None:
    """The questions that a checkpoint waits for, without an answer; None if it waits for none."""
    if branch_status(checkpoint) != Run.Status.WAITING:
        return None
    return answers_part(None, engine_of(contents).editable(contents), must_choose=False)
