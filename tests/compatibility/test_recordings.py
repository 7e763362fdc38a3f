"""A recording in which the engine panicked is discarded and recorded again."""

import sys
from pathlib import Path

import pytest

from quality.compatibility import sandbox
from quality.compatibility.sandbox import MAX_RECORDINGS, Failed, Sandbox
from tests.engine_runs.model import TestModel

# A fake recorder: a real panic of the serializer is random.
RECORDER = """
import sys
from pathlib import Path

attempts = Path(sys.argv[3]).resolve().parents[1] / "attempts"
count = len(attempts.read_text()) if attempts.exists() else 0
attempts.write_text("x" * (count + 1))
if count < int({panics}):
    sys.exit("pyo3_runtime.PanicException: dictionary changed size during iteration")
main = Path(sys.argv[3]) / "main"
main.mkdir(parents=True)
body = '{{"entities": [], "event_record": {{"nodes": {{}}}}}}'
(main / "20270101T000000_0a1b2c3d_p-none.json").write_text(body)
"""


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox, "PRESS", tmp_path)
    return tmp_path / "recordings"


def stage_with(tmp_path: Path, recordings: Path, panics: int) -> Sandbox:
    (tmp_path / "record.py").write_text(RECORDER.format(panics=panics))
    (tmp_path / "row").mkdir()
    return Sandbox(Path(sys.executable), "newest", tmp_path / "row", recordings, TestModel())


def test_a_recording_with_a_panic_is_recorded_again(tmp_path: Path, recordings: Path) -> None:
    store = stage_with(tmp_path, recordings, panics=2).recorded("crew")

    assert len(list(store.rglob("*.json"))) == 1
    assert (recordings / "attempts").read_text() == "xxx"
    assert [path.name for path in recordings.iterdir() if path.is_dir()] == ["crew.json"]


def test_a_recording_that_always_panics_fails_its_rows(tmp_path: Path, recordings: Path) -> None:
    with pytest.raises(Failed, match="panicked"):
        stage_with(tmp_path, recordings, panics=MAX_RECORDINGS).recorded("crew")

    assert not (recordings / "crew.json").exists()
