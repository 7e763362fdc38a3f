"""``make reference``: generates docs/reference.md with the commands, settings and make targets."""

import os
import re
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import django
from django.core.management import load_command_class
from django.core.management.base import BaseCommand, DjangoHelpFormatter

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference.md"
HEAD = """\
# Reference

Written by `make reference` from the code. Do not edit it by hand.

- [Commands](#commands)
- [Settings](#settings)
- [Make targets](#make-targets)

## Commands

An installed Forkline has the `forkline` command. In a checkout, `.venv/bin/python manage.py` runs the same
code, under the second of the two names. `forkline` without arguments serves `.checkpoints` or
`.checkpoints.db` of the current folder. `forkline --server URL COMMAND` sends a command to a server
elsewhere.
"""
SETTINGS_HEAD = """\
## Settings

Forkline reads its settings from environment variables. An invalid value ends the program with one line that
names the variable.

| variable | default | meaning |
|---|---|---|"""
TARGETS_HEAD = """\
## Make targets

In a checkout. `PORT`, `DATA_DIR` and `PYTHON` may be given with each of them, as in `make up PORT=9000`.

| target | what it does |
|---|---|"""
_TARGET_LINE = re.compile(r"^([a-z-]+):.*## (.+)$", re.M)


def main() -> None:
    """Write the file."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
    django.setup()
    TARGET.write_text(reference())


def reference() -> str:
    """Return the text of docs/reference.md. Needs Django to be set up."""
    return "\n".join([HEAD, *_commands(), *_settings(), "", *_make_targets(), ""])


def _commands() -> Iterator[str]:
    from checkpoint_site.command import COMMANDS

    for name, command in COMMANDS.items():
        parser = load_command_class("viewer", command).create_parser("manage.py", command)
        yield from _command(f"forkline {name}", parser, f"manage.py {command}")
    checkpoints: BaseCommand = load_command_class("viewer", "checkpoints")
    subparsers = _subparsers(checkpoints.create_parser("manage.py", "checkpoints"))
    for name, subparser in subparsers.items():
        yield from _command(f"forkline {name}", subparser, f"manage.py checkpoints {name}")


def _subparsers(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    found = next(action for action in parser._actions if isinstance(action, _SubParsersAction))
    # An alias has the parser of its command.
    return {name: parser for name, parser in found.choices.items() if parser.prog.endswith(f" {name}")}


def _command(name: str, parser: ArgumentParser, also: str) -> Iterator[str]:
    actions = sorted(filter(_is_ours, parser._actions), key=lambda action: bool(action.option_strings))
    positional = [_written(action) for action in actions if not action.option_strings]
    options = ["[OPTIONS]"] if any(action.option_strings for action in actions) else []
    usage = [" ".join([program, *options, *positional]) for program in (name, also)]
    yield f"### {name}\n"
    yield f"{parser.description}\n"
    yield from ["```sh", *usage, "```", ""]
    yield from ["| argument | meaning |", "|---|---|"]
    yield from (_row(f"`{_written(action)}`", _meaning(action, parser)) for action in actions)
    yield ""


def _is_ours(action: Action) -> bool:
    """Return whether to list an argument: not --help, hidden ones, or those of every Django command."""
    hidden = {"-h", *DjangoHelpFormatter.show_last}
    return action.help != SUPPRESS and not hidden & set(action.option_strings)


def _written(action: Action) -> str:
    """Return the argument as it is typed."""
    if action.choices is not None and not action.metavar:
        value = "|".join(map(str, action.choices))
    else:
        value = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else value
    name = action.option_strings[-1]
    return name if action.nargs == 0 else f"{name} {value}"


def _meaning(action: Action, parser: ArgumentParser) -> str:
    text = str(action.help or "") % {**vars(action), "prog": parser.prog}
    return f"{text} Repeatable." if type(action).__name__ == "_AppendAction" else text


def _settings() -> Iterator[str]:
    from checkpoint_site.environment import SETTINGS

    yield SETTINGS_HEAD
    for setting in SETTINGS:
        default = setting.default if " " in setting.default else f"`{setting.default}`"
        yield _row(f"`{setting.name}`", default, setting.text)


def _make_targets() -> Iterator[str]:
    yield TARGETS_HEAD
    for name, text in _TARGET_LINE.findall((ROOT / "Makefile").read_text()):
        yield _row(f"`make {name}`", text if text.endswith("…") else f"{text}.")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    main()
