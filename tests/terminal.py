"""The ``checkpoints`` command, run in this process."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def without_progress(printed: str) -> str:
    """Return what a command printed, without the lines that it prints while an import takes long."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.endswith(" …\n"))


class Terminal:
    """Runs subcommands of ``checkpoints``, and returns what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: object) -> str:
        """Return what a command prints on its standard output."""
        self.capsys.readouterr()
        call_command("checkpoints", *map(str, arguments))
        return self.capsys.readouterr().out

    def document(self, *arguments: object) -> Any:
        """Return the JSON document of a command, which prints nothing else."""
        return json.loads(self.text(*arguments, "--json"))

    def succeeded(self, *arguments: object) -> Any:
        """Return the document of a command whose job has to succeed."""
        done = self.document(*arguments, "--wait")
        assert done["status"] == "succeeded", done["error"]
        return done

    def refused(self, *arguments: object) -> Any:
        """Return the document of a command that has to fail."""
        with pytest.raises((SystemExit, CommandError)) as ended:
            self.document(*arguments)
        printed = self.capsys.readouterr().out
        # An invalid option is refused before the command starts.
        return json.loads(printed) if printed else {"error": str(ended.value)}
