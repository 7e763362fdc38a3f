"""The scripts of *Reproduce* run with the engine itself."""

import ast
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine_runs.checkpoints import crew_after, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import PRESS, environment
from viewer.engines import engine_named
from viewer.engines.recorded_calls import Reproduction


def test_a_script_forks_a_crew_with_an_edited_output(
    engine_python: Path, model: TestModel, stores: Path, tmp_path: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    text, answer = (str(task["id"]) for task in start.root["tasks"][:2])
    what = Reproduction(
        kind="fork",
        entity="crew",
        folder=str(PRESS),
        entry_point="",
        location=str(location),
        store_kind="json",
        source=str(start.source),
        branch="by-script",
        outputs={text: "An output that was edited by hand.", answer: {"edited": True}},
    )
    script = tmp_path / "fork.py"
    script.write_text(engine_named("crewai").script(what))
    done = subprocess.run(
        [engine_python, script],
        env=environment(model, tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert any("An output that was edited by hand." in str(request) for request in model.requests)
    new = written(location, before)
    assert new and {saved.body["branch"] for saved in new} == {"by-script"}
    outputs = [task["output"]["raw"] for task in new[-1].root["tasks"]]
    assert outputs[:2] == ["An output that was edited by hand.", '{"edited": true}']
    # Two threads of CrewAI may write at once, so that two checkpoints have the same parent.
    assert start.id in {saved.parent for saved in new}


TEXTS = st.text() | st.sampled_from(["'", '"""', "\\", "\n", "${x}", "#"])
VALUES = st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS), max_size=2)


@pytest.mark.parametrize("entity", ["crew", "flow", "agent", "flow_state", "graph"])
@pytest.mark.parametrize("kind", ["fork", "resume", "run"])
@given(
    text=TEXTS,
    values=VALUES,
    entry_point=st.sampled_from(["desk.flow:Desk", "src/line/flow.yaml", "crew.jsonc"]),
    store_kind=st.sampled_from(["json", "sqlite", "states", "saver"]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_script_is_python(
    entity: str, kind: str, text: str, values: dict[str, object], entry_point: str, store_kind: str
) -> None:
    engine = engine_named("langgraph" if entity == "graph" else "crewai")
    what = Reproduction(
        kind=kind,
        entity=entity,
        folder=text,
        entry_point=entry_point if engine.is_entry_point(entry_point) else "desk.flow:graph",
        location=text,
        store_kind=store_kind,
        source=f"{text}#3",
        run_key=text,
        checkpoint_id="20260101T000000_0000000a",
        branch=text,
        inputs=values,
        outputs=values,
        state=values,
        again=(text,),
        starts_over=True,
        missing=(text,),
    )
    ast.parse(engine.script(what))
