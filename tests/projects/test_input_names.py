"""The inputs that a project's source names, found without importing it."""

from pathlib import Path

from viewer.engines.crewai.input_names import input_names
from viewer.engines.entry_points import InputName

ROOT = Path(__file__).resolve().parents[2]
PRESS = ROOT / "tests/engine_runs/projects/press"


def names(folder: Path, entry_point: str, entity: str) -> list[str]:
    return [one.name for one in input_names(folder, entry_point, entity)]


def test_a_crews_placeholders_are_found_in_python_and_in_yaml() -> None:
    assert set(names(PRESS, "press_crew:make_crew", "crew")) == {"topic", "year", "tags"}
    assert set(names(ROOT / "demo", "newsroom.crew:Newsroom", "crew")) == {"topic", "year", "sources"}


def test_a_flows_state_names_its_inputs_with_types_and_defaults() -> None:
    assert input_names(PRESS, "press_flow:PressFlow", "flow") == (
        InputName("topic", str, "AI", True),
        InputName("year", int, 2026, True),
        InputName("outline", str, "", True),
    )


def test_the_inputs_of_a_dictionary_state_are_the_keys_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(
        "from crewai.flow.flow import Flow\n"
        "class Desk(Flow):\n"
        "    def go(self):\n"
        "        self.state['made'] = self.state['topic'] + self.state.get('year') + self.state['made']\n"
    )
    assert names(tmp_path, "desk:Desk", "flow") == ["topic", "year"]


def test_a_state_from_another_module_and_its_parent_is_found(tmp_path: Path) -> None:
    package = tmp_path / "src" / "desk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "states.py").write_text(
        "class Base(BaseModel):\n    id: str = ''\n    topic: str\n"
        "class DeskState(Base):\n    tags: list[str] = []\n    made: dict = Field(default_factory=dict)\n"
    )
    (package / "flow.py").write_text(
        "from .states import DeskState, Base\nclass Desk(Flow[DeskState]): pass\n"
    )
    assert input_names(tmp_path, "desk.flow:Desk", "flow") == (
        InputName("topic", str),
        InputName("tags", list, [], True),
        InputName("made", dict),
    )


def test_a_state_that_a_package_imports_from_its_own_module_is_found(tmp_path: Path) -> None:
    package = tmp_path / "desk"
    package.mkdir()
    (package / "states.py").write_text("class DeskState(BaseModel):\n    topic: str\n")
    (package / "__init__.py").write_text("from .states import DeskState\nclass Desk(Flow[DeskState]): pass\n")
    assert names(tmp_path, "desk:Desk", "flow") == ["topic"]


def test_hostile_and_missing_sources_give_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("class (")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "large.py").write_text("x = 1\n" * 100_000)
    for module in ("bad", "link", "large", "gone", "..", "os;x"):
        assert input_names(tmp_path, f"{module}:Thing", "crew") == ()
        assert input_names(tmp_path, f"{module}:Thing", "flow") == ()
