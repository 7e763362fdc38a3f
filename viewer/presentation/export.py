"""A run as one file that needs neither Forkline nor a network, made of redacted copies."""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import graphviz
from django.db.models import F
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.contents import Section
from viewer.engines.protocol import Engine
from viewer.engines.recorded_calls import NotReproducible, RecordedCall, Sources, Span, recorded_answer
from viewer.host_requests import MatchEntryPoint, ask
from viewer.launching.requests import redacted
from viewer.models import Checkpoint, Run
from viewer.presentation.run.branches import edited_checkpoints, trigger_label
from viewer.presentation.run.window import nodes_of, run_styles
from viewer.presentation.spans import branch_spans
from viewer.records.bodies import bodies_of
from viewer.records.lineage.graphs import literal_label
from viewer.records.lineage.lanes import ROW, draw_window
from viewer.records.prices import price_runs
from viewer.records.run_rows import branch_status
from viewer.redaction import MARKER

RUNNERS = Path(__file__).resolve().parents[1] / "runners"
# Characters of the record on each line of a file.
WIDTH = 96
ENDED = (Run.Status.COMPLETED, "waiting")


def as_pytest(run: Run) -> str:
    """A pytest file. Raises NotReproducible."""
    return pytest_file(*_parts(run))


def as_notebook(run: Run) -> str:
    """A Jupyter notebook. Raises NotReproducible."""
    return notebook(*_parts(run))


def pytest_file(engine: Engine[Any], record: Mapping[str, Any], entry_point: str) -> str:
    """A pytest file that repeats this record."""
    return "\n".join(
        [
            '"""Repeats a run with its recorded answers: it calls no model and no tool, and sends nothing.',
            "",
            *_about(engine),
            '"""',
            "",
            *_code(engine.name),
            "",
            *_record(record, entry_point),
            "",
            "",
            "def test_the_run_has_the_recorded_outputs() -> None:",
            "    record = Record(json.loads(RECORD))",
            "    record.check(run(ENTRY_POINT, record))",
            "",
        ]
    )


def notebook(engine: Engine[Any], record: Mapping[str, Any], entry_point: str) -> str:
    """A Jupyter notebook that repeats this record."""
    about = "\n".join(
        ["# A run with its recorded answers", "", "No model and no tool is called.", "", *_about(engine)]
    )
    check = [
        "record = Record(json.loads(RECORD))",
        "outputs = run(ENTRY_POINT, record)",
        "record.check(outputs)",
    ]
    code = (("code", _code(engine.name)), ("record", _record(record, entry_point)))
    cells = [
        {"cell_type": "markdown", "id": "about", "metadata": {}, "source": about},
        *(_cell(name, lines) for name, lines in code),
        _cell("run", [*check, "outputs"]),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return (
        json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1)
        + "\n"
    )


def _cell(name: str, lines: list[str]) -> dict[str, Any]:
    source = "\n".join(lines)
    empty: dict[str, Any] = {"execution_count": None, "outputs": [], "metadata": {}}
    return {"cell_type": "code", "id": name, "source": source, **empty}


def _about(engine: Engine[Any]) -> list[str]:
    """What the file needs. It names nothing that a checkpoint holds."""
    return [
        "Exported from Forkline, which it does not need. Run it in the project's folder, in its environment:",
        f"it needs {engine.title} and the project's code, and a test needs pytest.",
        f"Secrets in the record are {MARKER}. Keys of models are placeholders.",
        "Nodes and methods run as they are: what they do other than by models and tools happens again.",
    ]


def _parts(run: Run) -> tuple[Engine[Any], dict[str, Any], str]:
    """The engine, the record and the entry point. Raises NotReproducible."""
    found = branch_spans(run, run.branch_names[0] if run.branch_names else "")
    engine = engine_of(run.location)
    head = found.checkpoints[-1] if found.checkpoints else None
    if head is None or branch_status(head) not in ENDED or found.left_out:
        raise NotReproducible("export.not_reproducible")
    return engine, record_of(engine, found.sources, found.spans), _entry_point(run)


def _code(engine: str) -> list[str]:
    """The source of what answers the calls, for any engine and for this one, as one module."""
    parts = [
        (RUNNERS / folder / "recorded.py").read_text("utf-8")
        for folder in ("forkline_runner", f"forkline_{engine}")
    ]
    imports, rest = dict[str, None](), list[str]()
    for part in parts:
        docstring = ast.parse(part).body[0]
        for line in part.splitlines()[docstring.end_lineno or 0 :]:
            if line.startswith(("import ", "from ")):
                if not line.startswith(("from forkline_", "from __future__")):
                    imports[line] = None
            else:
                rest.append(line)
    return ["from __future__ import annotations", "", *imports, *rest]


def record_of(engine: Engine[Any], sources: Sources, spans: Sequence[Span]) -> dict[str, Any]:
    """What a run was given, its answers and results, and its outputs. Raises NotReproducible."""
    recorded, calls = engine.recorded_run(sources), dict[str, RecordedCall]()
    if recorded is None:
        raise NotReproducible("export.not_reproducible")
    for source in sources:
        for call in engine.recorded_calls(source.contents):
            calls.setdefault(call.id, call)
    return {
        "inputs": recorded.inputs,
        "expected": dict(recorded.expected),
        "answers": list(filter(None, map(recorded_answer, calls.values()))),
        "results": [
            {
                "tool": span.label,
                "arguments": span.arguments,
                "result": span.error if span.status == "failed" else span.answer,
                "is_error": span.status == "failed",
            }
            for span in spans
            if span.kind == "tool" and span.status != "open"
        ],
    }


def _entry_point(run: Run) -> str:
    """The entry point of the newest job of the run, else that of its project; empty if it is not known."""
    location = run.location
    for job in run.jobs.order_by("-created_at")[:10]:
        if named := str(job.request.get("entry_point") or ""):
            return str(redacted(named, location.project) or "")
    if (project := location.project) is None or not project.entry_points:
        return ""
    return ask(
        MatchEntryPoint(location.engine, project.folder, list(project.entry_points), run.entity, run.name),
        host=location.host_id,
    )


def _record(record: Mapping[str, Any], entry_point: str) -> list[str]:
    """The lines with the record and the entry point. Each line with data is one literal in ASCII."""
    text = json.dumps(record, default=str)
    lines = (text[at : at + WIDTH] for at in range(0, len(text), WIDTH))
    named = f"ENTRY_POINT = {entry_point!a}"
    return [
        named if entry_point else f"{named}  # module:attribute",
        "RECORD = (",
        *(f"    {one!a}" for one in lines),
        ")",
    ]


# The contents of an export of a run, as plain values.


# Inputs and outputs are exported of this many branches, those written last, and of newest checkpoints with
# this many bytes together, because all of them are in memory at once. One branch always fits.
MAX_BRANCHES, MAX_BYTES = 100, 64 * 1024 * 1024
SECTIONS = (Section.INPUTS, Section.STATE, Section.OUTPUTS, Section.MESSAGES)


def run_document(run: Run) -> dict[str, Any]:
    """A run with its branches, checkpoints, inputs, outputs and cost. Times are ISO 8601."""
    if not run.is_priced:
        price_runs(run.location)
        run.refresh_from_db()
    rows = list(run.checkpoints.select_related("parent").order_by("row"))
    heads = list(
        run.checkpoints.filter(is_branch_head=True).select_related("location", "stored_copy").order_by("-row")
    )
    exported = _exported(heads)
    return {
        "forkline": 1,
        "exported_at": timezone.now().isoformat(timespec="seconds"),
        "run": _run(run),
        "branches": _branches(run, exported),
        "branches_left_out": len(heads) - len(exported),
        "checkpoints": _checkpoints(run, rows),
    }


def _exported(heads: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The newest checkpoints of the branches that are exported, at least one."""
    found, room = list[Checkpoint](), MAX_BYTES
    for head in heads[:MAX_BRANCHES]:
        room -= head.size
        if found and room < 0:
            break
        found.append(head)
    return found


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.key,
        "name": str(run),
        "kind": run.entity,
        "engine": engine_of(run.location).title,
        "location": run.location.name,
        "started": _time(run.first_at),
        "last_checkpoint": _time(run.last_at),
        "seconds_worked": run.seconds,
        "status": run.status,
        "tokens": run.tokens,
        "tokens_in": run.tokens_in,
        "tokens_out": run.tokens_out,
        "cost_in_dollars": run.cost,
        "calls_without_price": run.unpriced_calls,
        "models": [
            {"model": model, "calls": calls, "tokens": tokens} for model, calls, tokens, *_ in run.usage
        ],
    }


def _branches(run: Run, heads: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    """Each branch with the contents of its newest checkpoint; without sections if that cannot be read."""
    engine = engine_of(run.location)
    bodies = {row.pk: body for row, body in bodies_of(run.location, heads)}
    return [
        {
            "name": head.branch,
            "status": branch_status(head),
            "newest_checkpoint": head.checkpoint_id,
            "progress": head.progress,
            **_sections(engine, bodies.get(head.pk)),
        }
        for head in heads
    ]


def _sections(engine: Engine[Any], body: dict[str, Any] | None) -> dict[str, Any]:
    # A body beyond the limits of pages is empty.
    if not body:
        return {"is_readable": False}
    contents = engine.contents_of(body)
    parts = list(engine.comparable(contents))
    return {
        "is_readable": True,
        "unreadable": list(contents.unreadable),
        **{
            section.value: [
                {"name": part.name, "value": part.value}
                for part in parts
                if part.section == section and not part.trait
            ]
            for section in SECTIONS
        },
    }


def _checkpoints(run: Run, rows: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    edited = edited_checkpoints(run)
    return [
        {
            "id": row.checkpoint_id,
            "parent": row.parent.checkpoint_id if row.parent else None,
            "parent_link": row.parent_link,
            "branch": row.branch,
            "created": _time(row.created_at),
            "trigger": row.trigger,
            "label": trigger_label(row.trigger),
            "subject": row.subject,
            "units": [name for name, _status in row.units],
            "units_done": row.units_done,
            "units_total": row.units_total,
            "tokens": row.tokens,
            "is_edited": row.pk in edited,
            "state": row.state,
        }
        for row in rows
    ]


def _time(at: Any) -> str | None:
    return at.isoformat() if at else None


# The lineage of a run as a picture: SVG with labels, and DOT for Graphviz.


# A picture has this many of the newest checkpoints. A larger one would be unreadable.
MAX_ROWS = 2_000
TEXT_WIDTH = 620
# Characters of a label.
MAX_LABEL = 90


@dataclass(frozen=True, slots=True)
class Label:
    """The text of a row of the picture, in pixels."""

    y: float
    text: str
    branch: str


def lineage_svg(run: Run) -> str:
    """The lanes of a run with a label per checkpoint, newest on top, as a self-contained SVG."""
    rows = list(
        run.checkpoints.annotate(
            parent_row=F("parent__row"), parent_lane=F("parent__lane"), parent_branch=F("parent__branch")
        ).order_by("-row")[:MAX_ROWS]
    )
    drawing = draw_window(nodes_of(rows, run_styles(run)), (), run.lane_count)
    labels = [
        Label(
            number * ROW + ROW / 2 + 4,
            printable(f"{trigger_label(row.trigger)} {row.subject}".strip())[:MAX_LABEL],
            printable(row.branch) if row.is_branch_head else "",
        )
        for number, row in enumerate(rows)
    ]
    context = {
        "drawing": drawing,
        "labels": labels,
        "title": printable(str(run)),
        "text_x": drawing.width + 12,
    }
    context |= {"width": drawing.width + TEXT_WIDTH, "height": max(ROW, drawing.height)}
    context["left_out"] = max(0, run.checkpoint_count - MAX_ROWS)
    return render_to_string("export/lineage.svg", context)


def lineage_dot(run: Run) -> str:
    """The checkpoints of a run and their parents, in Graphviz' language."""
    graph = graphviz.Digraph(literal_label(printable(str(run))), node_attr={"shape": "box"})
    for row in run.checkpoints.select_related("parent").order_by("row").iterator(2000):
        text = f"{row.branch}\n{trigger_label(row.trigger)} {row.subject}".strip()
        graph.node(f"c{row.pk}", literal_label(printable(text)))
        if row.parent_id is not None:
            is_recorded = row.parent_link == row.ParentLink.RECORDED
            graph.edge(f"c{row.parent_id}", f"c{row.pk}", style="solid" if is_recorded else "dashed")
    return str(graph.source)


def printable(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(one for one in text if one in "\n\t" or (one.isprintable() and one not in "\ufffe\uffff"))


# The formats of an export, each as one file.


T = TypeVar("T")
_BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """A format: its label, file name extension, media type, and the function that writes it.

    The names of its files begin with ``prefix``.
    """

    label: str | Promise
    ending: str
    media_type: str
    write: Callable[[T], str]
    prefix: str = ""


def as_json(run: Run) -> str:
    """The document of a run."""
    return json.dumps(run_document(run), indent=2, ensure_ascii=False, default=str) + "\n"


def as_html(run: Run) -> str:
    """An HTML page without scripts that loads nothing."""
    document = run_document(run)
    context = {"document": document, "run": run, "exported_at": document["exported_at"]}
    # Made by our own template, which escapes what it shows.
    context["picture"] = mark_safe(lineage_svg(run))  # noqa: S308
    return render_to_string("export/run.html", context)


def as_markdown(run: Run) -> str:
    """The facts, inputs and outputs of a run. Texts are in code blocks, which keep them unchanged."""
    document = run_document(run)
    facts = document["run"]
    lines = [f"# {plain_line(facts['name'])}", ""]
    lines += [
        f"- {name.replace('_', ' ')}: {plain_line(value)}"
        for name, value in facts.items()
        if value not in (None, "", 0) and not isinstance(value, list)
    ]
    for branch in document["branches"]:
        lines += ["", f"## {plain_line(branch['name'])}", "", f"{plain_line(branch['progress'])}"]
        if not branch["is_readable"]:
            lines += ["", "Its newest checkpoint cannot be read."]
        if unreadable := branch.get("unreadable"):
            lines += ["", f"Cannot be decoded: {', '.join(map(plain_line, unreadable))}."]
        for section in ("inputs", "state", "outputs", "messages"):
            for part in branch.get(section, ()):
                lines += ["", f"### {section}: {plain_line(part['name'])}", "", code_block(part["value"])]
    lines += [
        "",
        "## Checkpoints",
        "",
        "| id | branch | parent | trigger | tokens |",
        "|---|---|---|---|---|",
    ]
    for row in document["checkpoints"]:
        cells = (row["id"], row["branch"], row["parent"] or "", row["label"], row["tokens"])
        lines.append("| " + " | ".join(plain_line(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def plain_line(value: Any) -> str:
    """The value on one line, with the syntax of Markdown and HTML escaped."""
    text = " ".join(str(value).split())
    return re.sub(r"([\\`*_\[\]<>#&~!])", r"\\\1", text)


def code_block(value: Any) -> str:
    """The value as a code block whose fence is longer than any in it."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def as_otlp(run: Run, *, has_content: bool = False) -> str:
    """The run as OpenTelemetry spans, one request in OTLP's JSON on each line.

    Content is the messages of model calls, and the arguments and results of tools.
    """
    from viewer.presentation import export_spans

    return export_spans.as_lines(run, has_content=has_content)


# The formats that a collector accepts, each with whether it has messages.
OTLP = {"otlp": False, "otlp-messages": True}
FORMATS: Mapping[str, Format[Run]] = {
    "html": Format(_("HTML page"), "html", "text/html", as_html),
    "markdown": Format(_("Markdown"), "md", "text/markdown", as_markdown),
    "json": Format(_("JSON"), "json", "application/json", as_json),
    "dot": Format(_("DOT for Graphviz"), "dot", "text/vnd.graphviz", lineage_dot),
    "svg": Format(_("SVG picture"), "svg", "image/svg+xml", lineage_svg),
    "otlp": Format(_("OpenTelemetry spans"), "otlp.jsonl", "application/x-ndjson", as_otlp),
    "otlp-messages": Format(
        _("OpenTelemetry spans with messages"),
        "otlp.jsonl",
        "application/x-ndjson",
        partial(as_otlp, has_content=True),
    ),
}
# Those that repeat a run, if it can be repeated.
TESTS: Mapping[str, Format[Run]] = {
    "pytest": Format(_("Test for pytest"), "py", "text/x-python", as_pytest, "test_"),
    "notebook": Format(_("Jupyter notebook"), "ipynb", "application/x-ipynb+json", as_notebook),
}
ALL_FORMATS = {**FORMATS, **TESTS}


def file_name(run: Run, wanted: Format[Run]) -> str:
    """A file name that every system accepts."""
    return file_named(f"{run}-{run.key}", wanted)


def file_named(text: str, wanted: Format[Any]) -> str:
    """A file name of a format that every system accepts, after any text or name of such a file."""
    text = text.removeprefix(wanted.prefix).removesuffix(f".{wanted.ending}")
    # The name of a module has no dots, and no program takes a name for an option.
    name = re.sub(r"[^\w-]+" if wanted.prefix else r"[^\w.-]+", "_", text).strip("._-")[:80]
    return f"{wanted.prefix}{name or 'run'}.{wanted.ending}"
