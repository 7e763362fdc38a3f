"""The states that CrewAI itself stores are read as it wrote them."""

import subprocess
from pathlib import Path

from tests.environments import environment_with
from tests.real_stores import hashes_below
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.stores.protocol import Entry, Packed, ReadLimits, Snapshot

PROGRAM = """
import sys
from crewai.flow.flow import Flow, listen, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist

@persist(SQLiteFlowPersistence(sys.argv[1]))
class Article(Flow):
    @start()
    def choose(self):
        self.state["topic"] = "bees"

    @listen(choose)
    def write(self):
        self.state["draft"] = "On bees"

first, fork = Article(), Article()
first.kickoff()
first_id = first.state["id"]
Article().kickoff(inputs={"id": first_id})
fork.kickoff(restore_from_state_id=first_id)
open(sys.argv[2], "w").write(first_id + " " + fork.state["id"])
"""


def read(path: Path) -> list[Snapshot]:
    with open_reader(LocationAddress(path, ReadLimits())) as store:
        assert store.store_kind() == "states"
        entries = [one for one in store.entries() if isinstance(one, Entry)]
        found = [one.snapshot for one in store.read_all(entries, 1) if isinstance(one, Packed)]
    return sorted(found, key=lambda one: int(one.key))


def test_each_kickoff_and_fork_is_read_with_its_methods(engine_python: Path, tmp_path: Path) -> None:
    store, ids = tmp_path / "states/flow_states.db", tmp_path / "ids"
    store.parent.mkdir()
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "HOME": str(tmp_path)}
    command = [str(engine_python), "-c", PROGRAM, str(store), str(ids)]
    subprocess.run(command, check=True, capture_output=True, env=environment_with(None, **quiet))
    before = hashes_below(store.parent)
    first, fork = ids.read_text().split()
    found = read(store)
    assert [(one.run_key, one.subject) for one in found] == [
        *[(first, name) for name in ("choose", "write", "choose", "write")],
        *[(fork, name) for name in ("choose", "write")],
    ]
    expected = [None, *(one.checkpoint_id for one in found[:3]), None, found[4].checkpoint_id]
    assert [one.parent_id for one in found] == expected
    assert hashes_below(store.parent) == before
