"""No class of the engine that a checkpoint may name without consent does more than hold data."""

import json
import subprocess
from pathlib import Path

from forkline_langgraph.effects import DATA_CLASSES

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "quality/fuzz/engine_classes_program.py"


def test_every_public_name_of_both_packages_is_data_or_needs_consent(
    graph_python: Path, tmp_path: Path
) -> None:
    printed = subprocess.run(
        [graph_python, PROGRAM, tmp_path], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(printed.stdout.splitlines()[-1])
    print({name: found[name] for name in ("modules", "names", "tried", "built")})
    assert found["modules"] > 200 and found["names"] > 5_000 and found["tried"] > 25_000
    assert set(found["accepted"]) == {".".join(one) for one in DATA_CLASSES}
    # Each of them was built with paths, hosts and commands as its arguments.
    assert found["built"] > 5_000 and found["touched"] == []
    assert found["changed"] == [] and found["kept"] == "kept"
    # A class that opens its file is noticed, both by the check and by the audit hook.
    assert found["control"] == {
        "effects": ["module langchain_core.callbacks.file.FileCallbackHandler"],
        "events": ["open"],
    }
