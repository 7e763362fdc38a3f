"""``manage.py checkpoints note``: shows and changes names, stars, labels and notes."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import CHECKPOINT, read_stdin
from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Output, lines_of
from viewer.models import Annotation
from viewer.records.annotations import AnnotatedObject, annotate, annotation_of
from viewer.validation import OPTIONAL_NAME, TEXT

HELP = gettext_lazy("Show or change the name, star, labels and note of a checkpoint, its branch or its run.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=CHECKPOINT,
        metavar="LOCATION#ID",
        help=_("A checkpoint of a location, or a checkpoint's file."),
    )
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--branch", action="store_true", help=_("Annotate the branch of the checkpoint."))
    about.add_argument("--run", action="store_true", help=_("Annotate the run of the checkpoint."))
    parser.add_argument("--name", type=OPTIONAL_NAME, help=_("The name. Empty removes it."))
    parser.add_argument("--note", type=TEXT, help=_("The note in Markdown. Empty removes it; - reads stdin."))
    parser.add_argument(
        "--labels",
        type=OPTIONAL_NAME,
        metavar="LABEL,LABEL",
        help=_("The labels, separated by commas. Empty removes them."),
    )
    star = parser.add_mutually_exclusive_group()
    star.add_argument("--star", action="store_true", default=None, help=_("Add a star."))
    star.add_argument("--no-star", action="store_false", dest="star", help=_("Remove the star."))


def handle(options: Mapping[str, Any]) -> Output:
    """What is annotated now. Raises CommandError."""
    subject = subject_of(options)
    labels, note = options["labels"], options["note"]
    changes = {
        "name": options["name"],
        "is_starred": options["star"],
        "labels": None if labels is None else [labels],
        "note": read_stdin() if note == "-" else note,
    }
    has_changes = any(value is not None for value in changes.values())
    found = annotate(subject, None, **changes) if has_changes else annotation_of(subject)
    return Output(_document(subject, found), _lines(found))


def subject_of(options: Mapping[str, Any]) -> AnnotatedObject:
    """What the arguments name. Raises CommandError."""
    row = checkpoint_at(options["checkpoint"])
    if options["run"]:
        return AnnotatedObject(row.run)
    return (
        AnnotatedObject(row.run, row.branch)
        if options["branch"]
        else AnnotatedObject(row.run, "", row.checkpoint_id)
    )


def _document(subject: AnnotatedObject, found: Annotation) -> dict[str, Any]:
    return {
        "run": subject.run.key,
        "branch": subject.branch or None,
        "checkpoint": subject.checkpoint_id or None,
        "name": found.name,
        "starred": found.is_starred,
        "labels": found.labels,
        "note": found.note,
    }


def _lines(found: Annotation) -> list[str]:
    if found.is_empty:
        return [_("No name, star, label or note.")]
    head = " ".join(part for part in ("★" if found.is_starred else "", found.name) if part)
    lines = [head, ", ".join(found.labels), *lines_of(found.note)]
    return [line for line in lines if line]
