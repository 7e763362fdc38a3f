"""Answers the model calls of a run from a record, so that no model is called and nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused
from forkline_runner.recorded import Message, Record, Replacements, replaced, set_keys
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import ModelCalls, Request

MAX_SHOWN = 2000
MAX_SENT = 200
# Threads that a run leaves behind may call models and connect until the process ends.
_until_exit = ExitStack()


class ModelAnswers(Record):
    """The recorded answers. ``refused`` is why the first call without an answer stops the run."""

    def __init__(self, calls: ModelCalls, reporter: Reporter) -> None:
        super().__init__({"answers": calls["recorded"], "results": []}, answers_in_order=calls["in_order"])
        self.refused: Refused | None = None
        self._code = "runner.no_answer_left" if calls["in_order"] else "runner.no_recorded_answer"
        self._reporter = reporter

    def answer(self, messages: list[Message], model: str = "", agent: str = "") -> dict[str, Any]:
        """Return the answer to a model call, and report it. Raises LookupError, which no engine retries."""
        try:
            found = super().answer(messages, model, agent)
        except LookupError:
            sent = shortened(" ".join((messages[-1][1] if messages else "").split()), MAX_SENT)
            self.refused = self.refused or Refused(self._code, model=model, sent=sent)
            raise LookupError(str(self.refused)) from None
        text = found["text"] or ", ".join(one["name"] for one in found["tools"])
        self._reporter.write(
            "model_answered",
            model=model,
            recorded=shortened(found["model"], MAX_SENT),
            agent=agent,
            answer=shortened(text, MAX_SHOWN),
        )
        return found


@contextmanager
def recorded_answers(
    request: Request, reporter: Reporter, methods: Callable[[Record], Replacements]
) -> Iterator[None]:
    """Answer all model calls from the record, and connect to nothing, if the request says so.

    The process does so until it ends. Raises Refused after the block if a call had no
    answer, even if code caught that.
    """
    calls = (request.get("options") or {}).get("model_calls")
    if calls is None:
        yield
        return
    answers = ModelAnswers(calls, reporter)
    set_keys()
    _until_exit.enter_context(replaced(methods(answers)))
    try:
        yield
    finally:
        if answers.refused:
            raise answers.refused
