"""Three projects modelled on CrewAI's official examples, set up and started as their users do.

Each is started with the command in its README, imported by Forkline, resumed from its middle and forked.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.checkpoints import after_task, is_chain, tasks_called, written
from tests.engine_runs.model import model_server
from tests.engine_runs.prewarmed import WarmPython, launched
from tests.engine_runs.runs import PRESS, Saved, environment, marks, request_for, saved_in
from tests.imported import imported_location
from tests.runners.conftest import Engine
from viewer.engines.crewai.entry_points import entry_point_for
from viewer.engines.crewai.input_names import input_names
from viewer.engines.plan import Edits
from viewer.host.projects import ProposedProject, propose_project
from viewer.models import Run

pytestmark = pytest.mark.django_db
EXAMPLES = PRESS.parent / "examples"
# The entry point of each example and its inputs.
STARTS = {
    "price_watch": ("src/price_watch", ["main.py"]),
    "verse_loop": (".", ["verse_loop.main:kickoff", "src"]),
    "day_out": (".", ["main.py", "Ghent", "sun"]),
}
# The calls of the loop. Each round asks the poet, the critic, and for the critic's answer as JSON.
ROUNDS, CALLS = 3, 3


@dataclass(frozen=True)
class Example:
    """A project that its user has run once. ``prompts`` are those of this run."""

    project: Path
    folder: Path
    prompts: list[str]

    @property
    def location(self) -> Path:
        return self.folder / ".checkpoints"

    @property
    def proposed(self) -> ProposedProject:
        return propose_project(self.location)


@pytest.fixture(scope="module")
def played(
    warm_engine: WarmPython, engine_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Example]:
    """Every example, run once by its user."""
    root = tmp_path_factory.mktemp("examples")
    return {name: play(name, root / name, warm_engine, engine_python) for name in STARTS}


def play(name: str, project: Path, warm: WarmPython, python: Path) -> Example:
    shutil.copytree(EXAMPLES / name, project)
    (project / ".venv").symlink_to(python.parent.parent)
    start, arguments = STARTS[name]
    if ":" in arguments[0]:
        arguments = [arguments[0], str(project / arguments[1])]
    with model_server() as model:
        variables = environment(model, project)
        (project / ".env").write_text("OPENAI_API_KEY=unused\n")
        log = project / "log.txt"
        child = launched(warm, EXAMPLES / "run_as_user.py", arguments, project / start, variables, log)
        assert child.wait(240) == 0, log.read_text()[-3000:]
        return Example(project, project / start, model.prompts())


@pytest.fixture
def example(played: dict[str, Example], request: pytest.FixtureRequest, tmp_path: Path) -> Example:
    """Return a copy of the example under test."""
    original = played[request.param]
    project = Path(shutil.copytree(original.project, tmp_path / "project", symlinks=True))
    return Example(project, project / original.folder.relative_to(original.project), original.prompts)


def about(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [name], indirect=True)


def imported(example: Example) -> tuple[Run, str]:
    """Return the only run at the location and the entry point proposed for it."""
    location = imported_location(example.location)
    assert not location.problems.exists()
    run, found = location.runs.get(), example.proposed
    points = [point.name for point in found.entry_points]
    return run, entry_point_for(found.folder, points, run.entity, run.name)


def asked(example: Example, start: Saved, edits: Edits | None = None) -> dict[str, Any]:
    """Return the request of a resume, or of a fork with edits, of the proposed and imported project."""
    _run, entry_point = imported(example)
    return request_for(
        start,
        example.location,
        kind="fork" if edits else "resume",
        edits=edits,
        entry_point=entry_point,
        folder=example.proposed.folder,
    )


def state_of(saved: Saved) -> dict[str, Any]:
    state: dict[str, Any] = saved.root["checkpoint_state"]
    return state


@about("price_watch")
def test_a_crew_in_a_package_is_proposed_and_imported(example: Example) -> None:
    found = example.proposed
    assert found.folder == example.folder
    assert found.interpreter == example.project / ".venv/bin/python"
    assert found.environment_file == example.project / ".env"
    assert [(point.name, point.kind) for point in found.entry_points] == [("crew:PriceWatch", "crew")]
    names = {one.name for one in input_names(found.folder, "crew:PriceWatch", "crew")}
    assert names == {"product", "shops", "currency"}
    run, entry_point = imported(example)
    assert (run.entity, run.checkpoint_count, entry_point) == ("crew", 3, "crew:PriceWatch")


@about("price_watch")
def test_a_crew_resumed_from_its_middle_ends_as_its_first_run(engine: Engine, example: Example) -> None:
    before, start = marks(example.location), after_task(example.location, 1)
    first = saved_in(example.location)[-1]
    engine.completed(asked(example, start))
    assert engine.model.prompts() == example.prompts[1:]
    new = written(example.location, before)
    assert is_chain(start.id, new)
    assert [task["output"]["raw"] for task in new[-1].tasks] == [
        task["output"]["raw"] for task in first.tasks
    ]


@about("price_watch")
def test_a_fork_of_a_crew_calls_its_tool_and_reads_its_config(engine: Engine, example: Example) -> None:
    before, start = marks(example.location), after_task(example.location, 1)
    engine.model.calls_tools = 1
    edits = Edits(inputs={"product": "lamps"}, again=frozenset([start.tasks[0]["id"]]))
    engine.completed(asked(example, start, edits))
    assert tasks_called(engine.model) == ["Find", "Find", "Compare", "Advise"]
    assert "words in shop north: 12" in engine.model.prompts()[1]
    assert "Scout for lamps" in engine.model.prompts()[0]
    assert "buy lamps now" in engine.model.prompts()[3]
    new = written(example.location, before)
    assert is_chain(start.id, new)
    assert {saved.branch for saved in new} == {"try-it"}


@about("verse_loop")
def test_a_flow_with_crews_in_its_package_is_proposed_and_imported(example: Example) -> None:
    found = example.proposed
    assert found.folder == example.project
    assert [(point.name, point.kind) for point in found.entry_points] == [
        ("verse_loop.main:VerseFlow", "flow"),
        ("verse_loop.crews.critic.critic:CriticCrew", "crew"),
        ("verse_loop.crews.poet.poet:PoetCrew", "crew"),
    ]
    names = [one.name for one in input_names(found.folder, "verse_loop.main:VerseFlow", "flow")]
    assert names == ["subject", "verse", "remarks", "attempts"]
    run, entry_point = imported(example)
    assert (run.entity, entry_point) == ("flow", "verse_loop.main:VerseFlow")
    assert run.checkpoint_count == ROUNDS * 2 + 1


@about("verse_loop")
@pytest.mark.parametrize(
    ("done", "calls"), [(3, CALLS + 1), (4, CALLS * 2)], ids=["before the router", "behind the router"]
)
def test_a_loop_resumed_from_its_middle_ends_as_its_first_run(
    engine: Engine, example: Example, done: int, calls: int
) -> None:
    before, first = marks(example.location), saved_in(example.location)
    start = first[done - 1]
    engine.completed(asked(example, start))
    assert len(example.prompts) == ROUNDS * CALLS
    assert engine.model.prompts() == example.prompts[calls:]
    new = written(example.location, before)
    assert is_chain(start.id, new)
    assert len(new) == len(first) - done
    assert state_of(new[-1]) == state_of(first[-1])
    assert state_of(new[-1])["attempts"] == ROUNDS


@about("verse_loop")
def test_a_fork_of_a_loop_starts_its_rounds_with_the_edited_state(engine: Engine, example: Example) -> None:
    before, start = marks(example.location), saved_in(example.location)[3]
    edits = Edits(state={**state_of(start), "subject": "snow", "attempts": 0})
    engine.completed(asked(example, start, edits))
    assert len(engine.model.requests) == ROUNDS * CALLS
    assert all("verse about snow" in prompt for prompt in engine.model.prompts()[::CALLS])
    last = written(example.location, before)[-1]
    assert (state_of(last)["subject"], state_of(last)["attempts"]) == ("snow", ROUNDS)


@about("day_out")
def test_a_script_that_asks_for_input_is_proposed_without_entry_points_and_imported(example: Example) -> None:
    found = example.proposed
    assert (found.folder, found.entry_points) == (example.project, ())
    assert found.interpreter == example.project / ".venv/bin/python"
    run, entry_point = imported(example)
    assert (run.entity, run.checkpoint_count, entry_point) == ("crew", 3, "")
    assert all("Ghent" in prompt for prompt in example.prompts[:2])


@about("day_out")
def test_a_resumed_script_asks_nothing_again(engine: Engine, example: Example) -> None:
    before, start = marks(example.location), after_task(example.location, 1)
    run = engine.completed(asked(example, start))
    assert not run.of("question")
    assert engine.model.prompts() == example.prompts[1:]
    assert is_chain(start.id, written(example.location, before))


@about("day_out")
def test_a_fork_of_a_script_reads_the_edited_output_and_calls_its_tool(
    engine: Engine, example: Example
) -> None:
    before, start = marks(example.location), after_task(example.location, 1)
    engine.model.calls_tools = 1
    engine.completed(asked(example, start, Edits(outputs={start.tasks[0]["id"]: "only the belfry"})))
    assert tasks_called(engine.model) == ["Find", "Find", "Plan"]
    assert "only the belfry" in engine.model.prompts()[0]
    assert "words costs 5" in engine.model.prompts()[1]
    assert {saved.branch for saved in written(example.location, before)} == {"try-it"}
