"""The scripts of *Reproduce* run with LangGraph itself."""

import subprocess
from dataclasses import replace
from pathlib import Path

from tests.engine_runs.graphs import PROJECT, STORE, Graphs, checkpoints, digests, environment
from viewer.engines import engine_named
from viewer.engines.recorded_calls import Reproduction


def run(graphs: Graphs, what: Reproduction, python: Path) -> str:
    """Run the script of this in the graphs' folder, and return what it printed."""
    script = graphs.folder / "script.py"
    script.write_text(engine_named("langgraph").script(replace(what, folder=str(graphs.folder))))
    done = subprocess.run(
        [python, script],
        env=environment(graphs.folder) | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    script.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def reproduction(graphs: Graphs, thread: str, number: int, entry_point: str) -> Reproduction:
    store = graphs.folder / STORE
    checkpoint = checkpoints(graphs.folder, thread)[number]
    return Reproduction(
        kind="fork",
        entity="graph",
        folder="",
        entry_point=entry_point,
        location=str(store),
        store_kind="sqlite",
        source=f"{store}#{thread}/{checkpoint}",
        run_key=thread,
        checkpoint_id=checkpoint,
    )


def test_a_script_forks_a_thread_with_an_edited_channel_in_a_copy(graphs: Graphs, graph_python: Path) -> None:
    before = digests(graphs.folder)
    what = replace(reproduction(graphs, "fan", 2, "graphs:fan"), state={"topic": "dogs"})
    printed = run(graphs, what, graph_python)
    assert "left on dogs" in printed and "end on dogs" in printed
    after = digests(graphs.folder)
    assert {name: after.get(name) for name in before} == before


def test_a_script_answers_an_interrupt_in_a_copy(graphs: Graphs, graph_python: Path) -> None:
    before = digests(graphs.folder)
    what = reproduction(graphs, "approval", -1, "graphs:approval")
    printed = run(graphs, replace(what, answers={"": "yes"}), graph_python)
    assert "yes" in printed
    after = digests(graphs.folder)
    assert {name: after.get(name) for name in before} == before
