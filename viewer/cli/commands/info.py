"""``manage.py checkpoints info``."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.finding import checkpoint_at
from viewer.cli.output import Answer
from viewer.cli.rows import checkpoint_document
from viewer.engines.crewai.contents import Contents, contents_of
from viewer.importing import stored_body
from viewer.models import Checkpoint

HELP = gettext_lazy("Show one checkpoint: its inputs, tasks, state and agents.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="LOCATION#ID", help=_("A checkpoint of a location, or a checkpoint's file.")
    )


def answer(options: Mapping[str, Any]) -> Answer:
    """The stored, redacted copy, after what is new at its location was imported. Raises CommandError."""
    row = checkpoint_at(options["checkpoint"])
    contents = contents_of(stored_body(row))
    document = {
        **checkpoint_document(row),
        "inputs": contents.inputs,
        "tasks": [
            {
                "id": task.id,
                "description": task.description,
                "agent": task.agent,
                "done": task.done,
                "output": task.output,
            }
            for task in contents.tasks
        ],
        "flow_state": contents.flow_state,
        "agents": [
            {
                "id": agent.id,
                "role": agent.role,
                "goal": agent.goal,
                "backstory": agent.backstory,
                "model": agent.model,
                "tools": list(agent.tools),
            }
            for agent in contents.agents
        ],
        "unknown": list(contents.unknown),
    }
    return Answer(document, list(_lines(row, contents)))


def _lines(row: Checkpoint, contents: Contents) -> Iterable[str]:
    yield f"{row.checkpoint_id}  {row.entity} {row.name}".rstrip()
    parent = row.parent_checkpoint_id or (row.parent.checkpoint_id if row.parent else "-")
    yield "  " + _("on %(branch)s, after %(parent)s (%(edge)s), at %(trigger)s") % {
        "branch": row.branch,
        "parent": parent,
        "edge": row.get_parent_link_display(),
        "trigger": row.trigger or "-",
    }
    yield f"  {_counts(row)}"
    if contents.is_of_newer_version:
        yield (
            "  "
            + _("written by CrewAI %s, a newer version than Forkline was tried with") % row.engine_version
        )
    if contents.unknown:
        yield "  " + _("not understood: %s") % ", ".join(contents.unknown)
    yield from (f"  {name} = {value!r}" for name, value in contents.inputs.items())
    for task in contents.tasks:
        yield f"  {'✓' if task.done else '·'} {task.position}. {_short(task.description)}  [{task.agent}]"
        if task.output:
            yield f"       {_short(task.output)}"
    if contents.flow_state is not None:
        yield from (f"  {name}: {_short(str(value))}" for name, value in contents.flow_state.items())
    yield from (f"  {agent.role}: {_short(agent.goal)} ({agent.model})" for agent in contents.agents)


def _counts(row: Checkpoint) -> str:
    done, total = row.progress, row.total
    if total is not None:
        done = _("%(done)d of %(total)d done") % {"done": row.tasks_done, "total": total}
    events = ngettext("%(count)d event", "%(count)d events", row.event_count) % {"count": row.event_count}
    tokens = ngettext("%(count)d token", "%(count)d tokens", row.tokens) % {"count": row.tokens}
    return f"{done}, {events}, {tokens}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:89]}…"
