"""The refusal of a run, before anything has run."""

from forkline_runner.messages import english, message


class Refused(Exception):
    """The run was refused: nothing has run and nothing was paid. ``message`` says why, and what to do."""

    def __init__(self, code: str, /, **values: object) -> None:
        self.message = message(code, **values)
        super().__init__(english(self.message))
