"""Tries what a checkpoint may name, and what it gives to tools, against the list that a person agrees to.

Passes if no class of LangGraph or LangChain's core that needs no consent touches the disk, the network or a
process, whatever its arguments, and if no text of a generated tool, and no change to one, goes unlisted.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from quality.tables import print_heading, print_row

# The packages of the runners, as a runner imports them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer/runners"))

from forkline_crewai.effects import SECRET_FIELDS, effects_of
from forkline_runner.effects import Effect, unaccepted

ROOT = Path(__file__).resolve().parents[2]
GRAPH_PYTHON = ROOT / "demo/support/.venv/bin/python"
PROGRAM = ROOT / "quality/fuzz/engine_classes_program.py"
TOOLS, SECONDS = 5_000, 1_800
SOURCE = """
class Reader(BaseTool):
    name: str = "reader"
    description: str = "Reads."
class Remover(BaseTool):
    name: str = "reader"
    description: str = "Reads."
"""
NAMES = (
    *("host", "server", "hostname", "endpoint", "domain", "proxy", "dsn", "ip", "shell", "code", "python"),
    *("sql", "commands", "cmdline", "cwd", "filePath", "url", "mode", "a b", "ünknown", "0", "x.y", ""),
)
TEXTS = ("evil.example", "https://evil.example/x", "rm -rf x", "/srv/x", "read", "\x00", "x" * 2_000)


def main() -> int:
    """Print two tables. Return 1 if a check failed, else 0."""
    return int(not has_harmless_classes()) | int(not lists_all_values())


def has_harmless_classes() -> bool:
    """Print what the classes of the engine did. Return whether none did anything without consent."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(GRAPH_PYTHON), str(PROGRAM), folder, "all"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    found = json.loads(printed.splitlines()[-1])
    touched = [*found["touched"], *found["changed"]]
    print_heading("modules", "names", "values tried", "need no consent", "values built", "touched", "noticed")
    is_noticed = found["control"]["events"] == ["open"] and len(found["control"]["effects"]) == 1
    counts = (found[name] for name in ("modules", "names", "tried"))
    print_row(*counts, len(found["accepted"]), found["built"], len(touched), "yes" if is_noticed else "no")
    print(*touched[:20], sep="\n")
    return is_noticed and not touched and found["kept"] == "kept" and found["built"] > 0


def lists_all_values() -> bool:
    """Print how many values of generated tools are listed. Return whether all are, and each change too."""
    texts, changes, wrong = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "fuzzed_tools.py").write_text(SOURCE)
        sys.path.insert(0, folder)
        for seed in range(TOOLS):
            chance = random.Random(seed)
            fields = {name: random_value(chance) for name in random_names(chance)}
            found = effects_with(fields)
            shown = " ".join(f"{one.field} {one.name}" for one in found).replace("\\u0000", "\x00")
            for text in texts_in(fields):
                texts += 1
                if text[:100] not in shown:
                    wrong.append(f"tool {seed} does not list {text[:100]!r}")
            accepted: Any = {"accepted_effects": [one.key for one in found]}
            for changed, kind in changed_fields(fields, chance):
                changes += 1
                if not unaccepted(effects_with(changed, kind), accepted):
                    wrong.append(f"tool {seed} is accepted as {kind} {changed!r}"[:300])
    print_heading("tools", "texts", "changed tools", "wrong")
    print_row(TOOLS, texts, changes, len(wrong))
    print(*wrong[:20], sep="\n")
    return not wrong


def effects_with(fields: dict[str, Any], kind: str = "Reader") -> list[Effect]:
    tool = {"tool_type": f"fuzzed_tools.{kind}", "name": "reader", "description": "Reads.", **fields}
    request: Any = {"entry_point": "", "entity": "crew", "entry_points": ["fuzzed_tools:x"]}
    crew = {"entity_type": "crew", "agents": [{"role": "x", "llm": "gpt-4o", "tools": [tool]}], "tasks": []}
    return effects_of(crew, request, {"OPENAI_BASE_URL": "http://127.0.0.1:9"})


def random_names(chance: random.Random) -> list[str]:
    return chance.sample(NAMES, chance.randint(1, 4))


def random_value(chance: random.Random, depth: int = 0) -> Any:
    if depth < 14 and chance.random() < 0.4:
        if chance.random() < 0.5:
            return [random_value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
        return {name: random_value(chance, depth + 1) for name in random_names(chance)}
    return chance.choice((*TEXTS, chance.choice(TEXTS), 5, 0.5, True, None))


def texts_in(value: Any, is_outer: bool = True) -> Iterator[str]:
    """Yield each text of a value, and each name inside it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item, False)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not is_outer:
                yield name
            yield from texts_in(item, False)


def changed_fields(fields: dict[str, Any], chance: random.Random) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the fields with one change: another tool, field or value, or one value more."""
    name = chance.choice(list(fields))
    if any(texts_in(fields)):
        yield fields, "Remover"
        yield {(f"{key}_2" if key == name else key): value for key, value in fields.items()}, "Reader"
        yield {key: [value, "more"] if key == name else value for key, value in fields.items()}, "Reader"
    yield deepcopy(fields) | {"another": chance.choice((*TEXTS, True, 7))}, "Reader"


assert not any(word in name for name in NAMES for word in SECRET_FIELDS)

if __name__ == "__main__":
    sys.exit(main())
