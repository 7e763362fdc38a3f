"""What ``manage.py checkpoints`` can be asked: one file for each question, listed here."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from viewer.terminal.answer import Subcommand

# Each module holds HELP, add_arguments(parser) and answer(options).
MODULES = {
    "list": "listing",
    "info": "info",
    "fork": "fork",
    "resume": "resume",
    "vary": "vary",
    "run": "run",
    "answer": "answering",
    "backup": "backup",
    "restore": "restore",
    "doctor": "doctor",
}


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name. Each is imported when it is asked for: most need what others do not."""

    def __getitem__(self, name: str) -> Subcommand:
        module: Subcommand = import_module(f"viewer.terminal.{MODULES[name]}")
        return module

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


SUBCOMMANDS = Subcommands()
