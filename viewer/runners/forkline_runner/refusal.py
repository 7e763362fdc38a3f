"""Why a run is not started."""

from forkline_runner.messages import english, words


class Refused(Exception):
    """Nothing has run and nothing was paid. The message, also as ``words``, says why and what to do."""

    def __init__(self, text: str, /, **values: object) -> None:
        self.words = words(text, **values)
        super().__init__(english(self.words))
