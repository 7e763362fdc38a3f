"""``manage.py checkpoints export``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import CHECKPOINT, NEW_FILE
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output
from viewer.presentation.export import FORMATS, file_name

HELP = gettext_lazy("Export the run of a checkpoint as one file, redacted.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=CHECKPOINT,
        metavar="LOCATION#ID",
        help=_("Any checkpoint of the run, or a checkpoint's file."),
    )
    parser.add_argument(
        "--format", choices=tuple(FORMATS), default="html", help=_("The format (default: HTML).")
    )
    parser.add_argument(
        "--output",
        type=NEW_FILE,
        metavar="FILE",
        help=_(
            "The new file to write (default: named after the run, in this folder); - for standard output."
        ),
    )


def handle(options: Mapping[str, Any]) -> Output:
    """Write the file, which must not exist, or return its text for standard output. Raises CommandError."""
    run, wanted = checkpoint_at(options["checkpoint"]).run, FORMATS[options["format"]]
    document = {"run": run.key, "format": options["format"]}
    if options["output"] == "-":
        text = wanted.write(run)
        return Output({**document, "text": text}, [], file=text)
    path = Path(options["output"] or file_name(run, wanted)).expanduser()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(wanted.write(run))
    except FileExistsError:
        raise CommandError(_("%(path)s already exists.") % {"path": path}) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    return Output({**document, "file": str(path.absolute())}, [_("Wrote %(path)s.") % {"path": path}])
