"""``manage.py checkpoints fork``."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext_lazy as _

from viewer.cli.edits import parsed
from viewer.cli.finding import checkpoint_at
from viewer.cli.options import add_options
from viewer.cli.output import Output
from viewer.cli.starting import add_run_arguments, next_units_of, request_from, started
from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.launching.naming import fork_branch
from viewer.launching.options import BRANCH, CACHE_WARMUP, INTO, MODEL, parse_fork_target
from viewer.launching.requests import ForkRequest

HELP = _("Continue from a checkpoint on a new branch, with your edits.")


def add_arguments(parser: CommandParser) -> None:
    add_run_arguments(parser)
    add_options(parser, MODEL)
    add_options(parser, CACHE_WARMUP)
    parser.add_argument(
        "--ask-next",
        action="store_true",
        help=str(_("LangGraph: show what would run next for each --as-node, without starting anything.")),
    )
    add_options(parser, BRANCH, INTO)


def handle(options: Mapping[str, Any]) -> Output:
    checkpoint = checkpoint_at(options["checkpoint"])
    request = request_from(ForkRequest, checkpoint, options["branch"] or "", options)
    if not request.branch:
        request = replace(request, branch=fork_branch(request))
    if options["ask_next"]:
        return next_units_of(request, options)
    kind = kind_of(engine_of(request.contents), request.contents.kind)
    into = parsed("--into", partial(parse_fork_target, kind=kind), options["into"])
    request = replace(request, into=into)
    return started(request, options)
