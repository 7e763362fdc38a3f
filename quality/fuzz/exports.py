"""Exports runs and collections whose every text and value is hostile.

Passes if each exported test and notebook has the code of a harmless one and the record as data, if spans are
valid JSON, if a collection can be imported again as it was, if no export has a secret, and if nothing takes
long.
"""

import ast
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quality.fuzz.script_injection.checkpoints import Texts, crew_body
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import made_location, temporary_data_folder

if TYPE_CHECKING:
    from viewer.models import Run

RUNS, MAX_SECONDS = 150, 20.0
KEY = "sk-proj-" + "a1B2" * 10
# No rule recognises it as a secret: the environment file of the project has it.
OF_PROJECT = "blue-whale-north-31"
TEXTS = (
    *("x", "'''\"\"\"\\'", '"""\nimport os\nos.system(\'id\')\n"""', "')\nraise SystemExit\n(''", "\\"),
    *("\\N{BULLET}", "%%bash\ntouch owned", "!touch owned", "%run x", "os?", "\n\n!ls\n%cd /", "\f\v"),
    *(
        "</script>{{7*7}}{% load x %}",
        "\u2028\u2029\x85",
        "\x1b[2K\x07",
        "\u202eabc",
        "a\0b",
        "\U0001d54f" * 90,
    ),
    *("{0}{x!r}%s%(y)s$HOME`id`", "# -*- coding: utf-7 -*-", "def test_x(): ...\n", "RECORD = (", "@fixture"),
    *(KEY, f"Bearer {KEY}", OF_PROJECT, f"token={OF_PROJECT}", json.dumps({"password": KEY}), "é" * 30_000),
)
VALUES = ("-0.0", "1e308", "1e-320", "-1", "9" * 400, "null", "true", "[]", '{"a": [{"b": null}]}', '""')
MAGIC = re.compile(r"[ \t]*(%|!|\?)|.*\?[ \t]*$")


def body_of(chance: random.Random, number: int) -> str:
    """The JSON of a completed crew, with some values of other types."""
    texts = Texts({number * 10 + at: chance.choice(TEXTS) for at in range(chance.randrange(1, 4))})
    body = crew_body(texts, texts.numbers[0], texts.numbers)
    body["trigger"] = "crew_kickoff_completed"
    crew = body["entities"][0]
    crew["checkpoint_inputs"] |= {chance.choice(TEXTS): "VALUE" for _more in range(3)}
    for node in body["event_record"]["nodes"].values():
        if node["event"]["type"] == "llm_call_started" and chance.randrange(3) == 0:
            node["event"] |= {"temperature": "VALUE", "max_tokens": "VALUE", "seed": "VALUE"}
    return re.sub('"VALUE"', lambda _found: chance.choice(VALUES), json.dumps(body))


def main() -> int:
    """Print what was exported. Return 1 if anything was wrong."""
    with temporary_data_folder() as folder:
        counts, faults = tried(folder, range(RUNS))
    print_heading("runs", *counts, "wrong")
    print_row(RUNS, *counts.values(), len(faults))
    print(*faults[:20], sep="\n")
    return 1 if faults or min(counts["as tests"], counts["as spans"], counts["collected"]) == 0 else 0


def tried(folder: Path, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Export a run of each seed from a store below the folder. Return what happened, and what was wrong."""
    from viewer.host.locations.importing import import_location
    from viewer.models import Job, Run

    counts, faults = Counter[str](), list[str]()
    location = made_location(folder)
    (folder / ".env").write_text(f"HARBOUR_TOKEN={OF_PROJECT}\n")
    assert location.project
    location.project.change(
        interpreter=sys.executable, environment_file=str(folder / ".env"), entry_points=["crew:build"]
    )
    (Path(location.path) / "main").mkdir()
    for seed in [-1, *seeds]:
        # The first one is harmless: all exports have its code.
        body = body_of(random.Random(seed), seed) if seed >= 0 else json.dumps(harmless_body())
        (Path(location.path) / "main" / f"20261120T{seed + 1:06}_{seed + 1:08x}.json").write_text(body)
    import_location(location)
    runs = list(Run.objects.select_related("location__project").order_by("pk"))
    for number, run in enumerate(runs):
        name = TEXTS[number % len(TEXTS)] if number else "crew:build"
        Job.objects.create(
            kind="run", location=location, run=run, request={"entry_point": name}, status="failed"
        )
    code = code_of(next(run for run in runs if run.key == "kickoff of 1"))
    for number, run in enumerate(runs):
        start = time.monotonic()
        try:
            wrong = list(faults_of(run, code, counts))
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"[:300]]
        wrong += ["slow"] if time.monotonic() - start > MAX_SECONDS else []
        faults += [f"run {number}: {one}" for one in wrong]
    return counts, [*faults, *collected(runs, counts)]


def harmless_body() -> dict[str, Any]:
    """A completed crew in which nothing is hostile."""
    return {**crew_body(Texts({1: "x"}), 1, [1]), "trigger": "crew_kickoff_completed"}


def code_of(run: "Run") -> list[str]:
    """What the test and the cells of the notebook of a run do, without their record."""
    from viewer.presentation.export import as_notebook, as_pytest

    cells = json.loads(as_notebook(run))["cells"]
    sources = [as_pytest(run), *(cell["source"] for cell in cells if cell["cell_type"] == "code")]
    return [ast.dump(without_record(source)) for source in sources]


def without_record(source: str) -> ast.Module:
    """The syntax tree of a file, in which both constants that depend on the run are empty."""
    tree = ast.parse(source)
    for node in tree.body:
        name = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(name, ast.Name) and name.id in ("RECORD", "ENTRY_POINT"):
            assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            node.value.value = ""
    return tree


def faults_of(run: "Run", code: list[str], counts: Counter[str]) -> Iterator[str]:
    """What is wrong with the exports of a run."""
    from viewer.engines.recorded_calls import NotReproducible
    from viewer.presentation.export import FORMATS, as_notebook, as_pytest
    from viewer.presentation.export_spans import as_lines

    texts = {name: one.write(run) for name, one in FORMATS.items()}
    texts |= {"spans": as_lines(run, has_content=True), "bare spans": as_lines(run, has_content=False)}
    try:
        texts |= {"test": as_pytest(run), "notebook": as_notebook(run)}
        counts["as tests"] += 1
        yield from [] if code_of(run) == code else ["other code"]
        yield from faults_of_cells(texts)
    except NotReproducible:
        counts["not reproducible"] += 1
    for line in texts["spans"].splitlines():
        json.loads(line, parse_constant=refused)
        counts["as spans"] += 1
    for name, text in texts.items():
        yield from (f"a secret in {name}" for secret in (KEY, OF_PROJECT) if secret in text)
        text.encode()


def refused(name: str) -> None:
    """Raise ValueError for a constant that JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def faults_of_cells(texts: dict[str, str]) -> Iterator[str]:
    """What IPython would run of a notebook besides its code, and a test's line that is not in ASCII."""
    cells = [cell for cell in json.loads(texts["notebook"])["cells"] if cell["cell_type"] == "code"]
    record = next(cell["source"] for cell in cells if cell["id"] == "record")
    yield from (f"a magic: {line[:60]}" for line in record.split("\n") if MAGIC.match(line))
    yield from [] if record.isascii() and record in texts["test"] else ["a record that is not in ASCII"]
    names: dict[str, Any] = {}
    exec(compile(record, "record", "exec"), names)
    json.loads(names["RECORD"])


def collected(runs: "Sequence[Run]", counts: Counter[str]) -> Iterator[str]:
    """What is wrong with a collection of the calls of all runs, after it was exported and imported again."""
    from viewer.models import CollectionItem
    from viewer.presentation.calls import recorded_calls_of
    from viewer.records.collections import (
        Subject,
        add_items,
        collection_named,
        import_items,
        items_in,
        lines_of,
    )

    made, chance = collection_named("hostile", None), random.Random(24)
    for run in runs:
        checkpoint = run.checkpoints.select_related("location__project", "run").latest("pk")
        calls = recorded_calls_of(checkpoint)[:3]
        kind = CollectionItem.Kind.CALL
        subjects = [
            Subject(checkpoint, kind, call.name, f"{run}, {call.agent or call.model}") for call in calls
        ]
        typed = [chance.choice(TEXTS)[:9_000].replace("\0", "") for _each in range(2)]
        counts["collected"] += len(add_items(made, [Subject(checkpoint), *subjects], None, *typed))
    lines = list(lines_of(made, ""))
    yield from ("a secret in a collection" for secret in (KEY, OF_PROJECT) if secret in "".join(lines))
    copy = collection_named("copy", None)
    import_items(copy, items_in("".join(lines).encode()), None)
    yield from [] if list(lines_of(copy, "")) == lines else ["another collection after its import"]


if __name__ == "__main__":
    sys.exit(main())
