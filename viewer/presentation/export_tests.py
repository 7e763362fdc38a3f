"""A run as a pytest file or a notebook that repeats it with its recorded answers.

The file holds the record as JSON in string literals, so nothing of a checkpoint is ever part of its code.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from viewer.engines import engine_of
from viewer.engines.protocol import Engine
from viewer.engines.recorded_calls import RecordedCall, recorded_answer
from viewer.engines.reproduction import NotReproducible
from viewer.engines.spans import Sources, Span
from viewer.host_requests import MatchEntryPoint, ask
from viewer.launching.requests import redactor_of
from viewer.models import Run
from viewer.presentation.spans import branch_spans
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
            return str(redactor_of(location.project)(named) or "")
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
