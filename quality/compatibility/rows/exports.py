"""Exported tests and notebooks: they repeat a recorded run, and call no model and no tool."""

from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.sandbox import Sandbox, holds, same
from tests.engine_runs.exported import run_exported
from tests.engine_runs.runs import PRESS, saved_in
from viewer.engines import engine_named
from viewer.engines.recorded_calls import SpanSource
from viewer.presentation.export import notebook, pytest_file, record_of

EXPORTS = {"test_run.py": pytest_file, "run.ipynb": notebook}


def repeated(sandbox: Sandbox, location: Path, entry_point: str, results: int = 0) -> None:
    """Export the newest checkpoint of a run, which has this number of results of tools, and run the files."""
    engine, head = engine_named("crewai"), saved_in(location)[-1]
    sources = [SpanSource(head.id, None, engine.contents_of(head.body))]
    record = record_of(engine, sources, engine.spans(sources))
    holds("answers are recorded", record["answers"])
    same("results recorded", len(record["results"]), results)
    for name, write in EXPORTS.items():
        file = sandbox.folder / name
        file.write_text(write(engine, record, entry_point))
        status, printed = run_exported(sandbox.python, PRESS, file, PRESS_TRACE=str(sandbox.traces))
        holds(f"{name} repeats the run: {printed[-1000:]}", status == 0)
    same("called", sandbox.traced(), [])


@row("export", "a crew that calls a tool, as a test and as a notebook")
def crew(sandbox: Sandbox) -> None:
    repeated(sandbox, sandbox.recorded("used tool"), "press_parts:with_class_tool", results=1)


@row("export", "a flow, as a test and as a notebook")
def flow(sandbox: Sandbox) -> None:
    repeated(sandbox, sandbox.recorded("flow"), "press_flow:PressFlow")
