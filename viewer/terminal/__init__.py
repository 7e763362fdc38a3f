"""What ``manage.py checkpoints`` can be asked: one file for each question, listed here."""

from viewer.terminal import answering, backup, doctor, fork, info, listing, restore, resume, run, vary
from viewer.terminal.answer import Subcommand

# Each module holds HELP, add_arguments(parser) and answer(options).
SUBCOMMANDS: dict[str, Subcommand] = {
    "list": listing,
    "info": info,
    "fork": fork,
    "resume": resume,
    "vary": vary,
    "run": run,
    "answer": answering,
    "backup": backup,
    "restore": restore,
    "doctor": doctor,
}
