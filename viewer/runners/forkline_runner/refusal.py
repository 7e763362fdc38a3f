"""Why a run is not started."""

from forkline_runner.messages import english, message


class Refused(Exception):
    """Nothing has run and nothing was paid. Its ``message`` says why, and what to do."""

    def __init__(self, code: str, /, **values: object) -> None:
        self.message = message(code, **values)
        super().__init__(english(self.message))
